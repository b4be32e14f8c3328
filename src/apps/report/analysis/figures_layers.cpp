// Figures with one number per layer, and matrices of layers.
#include <algorithm>
#include <cmath>

#include "apps/report/analysis/figure_parts.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

struct LinePanel {
  std::string title;
  std::vector<std::vector<double>> values;  // [runs][L], or [L + 1] of the residual stream
  bool from_zero_layer = false;             // the first value belongs to block 0's input
};

// One number per layer: a panel for each quantity, with a line for each run.
struct LayerLines {
  std::string name, title, unit, caption;
  std::vector<LinePanel> panels;
  plot::Axis y = {};
  bool shared = true;  // one scale for all panels; otherwise one each
};

constexpr double kLinesHeight = 180;
constexpr double kLinesRow = kLinesHeight + 66;
constexpr double kSpread = 30;  // largest high / low with a linear scale

bool has_line(const LinePanel& panel) {
  return std::any_of(panel.values.begin(), panel.values.end(), any_number);
}

std::size_t columns_of(std::size_t panels) { return panels <= 3 ? panels : panels == 4 ? 2 : 3; }

void take_in_lines(plot::Axis& axis, const LinePanel& panel) {
  for (const std::vector<double>& values : panel.values) axis.data.take_in(values);
}

void finish_axis(plot::Axis& axis) {
  axis.log = axis.data.low > 0 && axis.data.high > kSpread * axis.data.low && axis.limit.empty();
  if (!axis.log) axis.data.take_in(0);
}

plot::Table lines_table(const std::vector<AnalyzedRun>& runs, const LayerLines& what) {
  plot::Table table{{"layer"}, {}};
  std::size_t first = 1, last = 0;
  for (const LinePanel& panel : what.panels) {
    if (panel.from_zero_layer) first = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      table.columns.push_back(cat(runs[r].name, ": ", panel.title));
      const bool starts_at_zero = panel.from_zero_layer && !panel.values[r].empty();
      last = std::max(last, panel.values[r].size() - (starts_at_zero ? 1 : 0));
    }
  }
  for (std::size_t layer = first; layer <= last; ++layer) {
    std::vector<std::string> row = {cat(layer)};
    for (const LinePanel& panel : what.panels) {
      const std::size_t begin = panel.from_zero_layer ? 0 : 1;
      for (const std::vector<double>& values : panel.values) {
        const bool there = layer >= begin && layer - begin < values.size();
        row.push_back(there ? plot::readable(values[layer - begin]) : "");
      }
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void draw_panel(plot::Canvas& canvas, const plot::Box& area, const LinePanel& what,
                const std::vector<AnalyzedRun>& runs, const plot::Axis& y, bool labels) {
  std::size_t depth = 0;
  for (const std::vector<double>& values : what.values) depth = std::max(depth, values.size());
  if (what.from_zero_layer && depth > 0) --depth;
  plot::PanelLook look;
  look.title = what.title;
  look.y_labels = labels;
  plot::Panel panel(canvas, area, layer_axis(depth, what.from_zero_layer), y, look);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::size_t n = what.values[r].size();
    panel.line({runs[r].name,
                layer_places(n, what.from_zero_layer ? 0 : 1),
                what.values[r],
                {},
                {},
                runs[r].index});
  }
}

// Draws nothing if no run has a number.
void add_layer_lines(const FigureInput& in, LayerLines what, Figures& out) {
  const std::vector<AnalyzedRun>& runs = in.runs;
  std::erase_if(what.panels, [](const LinePanel& p) { return !has_line(p); });
  if (what.panels.empty()) return;
  std::vector<plot::Axis> axes(what.panels.size(), what.y);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (what.shared || i == k) take_in_lines(axes[i], what.panels[k]);
    }
    finish_axis(axes[i]);
    axes[i].label = what.unit;
  }
  const std::size_t columns = columns_of(axes.size());
  const std::size_t rows = (axes.size() + columns - 1) / columns;
  std::vector<plot::LegendEntry> legend;
  for (const AnalyzedRun& run : runs) legend.push_back(legend_entry(run));
  const double head = head_height(legend) + 22;
  plot::Canvas canvas(kFigureWidth, head + kLinesRow * static_cast<double>(rows));
  draw_head(canvas, what.title, in.data, legend);
  double left = 0;
  for (const plot::Axis& axis : axes) left = std::max(left, plot::left_margin(axis, kLinesHeight));
  const double between = what.shared ? 14 : left + 10;
  const double n = static_cast<double>(columns);
  const double width = (kFigureWidth - 8 - left - kFigureSide - (n - 1) * between) / n;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t line = i / columns;
    const double column = static_cast<double>(i % columns), row = static_cast<double>(line);
    const plot::Box area = {8 + left + column * (width + between), head + row * kLinesRow, width,
                            kLinesHeight};
    draw_panel(canvas, area, what.panels[i], runs, axes[i], !what.shared || i % columns == 0);
  }
  std::string description = cat(what.title, " (", what.unit, ") over the layers, ", in.data);
  for (const LinePanel& panel : what.panels) {
    std::vector<plot::Range> ranges(runs.size());
    for (std::size_t r = 0; r < runs.size(); ++r) ranges[r].take_in(panel.values[r]);
    description += cat("; ", panel.title, ": ", spans_text(runs, ranges));
  }
  out.push_back(make_figure(what.name, what.title, what.caption, description, canvas,
                            lines_table(runs, what)));
}

// Returns one number per layer: the element at `indices`, such as {site, 1}; NaN if it is missing.
std::vector<double> along_layers(const AnalyzedRun& run, std::string_view key,
                                 const std::vector<std::size_t>& indices, std::size_t more = 0) {
  std::vector<double> out;
  const AnalysisJson& layers = run.at(key);
  if (!layers.is_array()) return out;
  for (std::size_t l = 0; l < run.depth() + more; ++l) {
    const AnalysisJson* value = &item(layers, l);
    for (std::size_t i : indices) value = &item(*value, i);
    out.push_back(number_of(*value));
  }
  return out;
}

LinePanel line_panel(const FigureInput& in, const std::string& title, std::string_view key,
                     const std::vector<std::size_t>& indices, std::size_t more = 0) {
  LinePanel panel{title, {}, more > 0};
  for (const AnalyzedRun& run : in.runs) {
    panel.values.push_back(along_layers(run, key, indices, more));
  }
  return panel;
}

// Panels of norm1 and norm2, before and after the norm.
std::vector<LinePanel> before_and_after(const FigureInput& in, std::string_view key,
                                        const std::vector<std::size_t>& indices = {}) {
  std::vector<LinePanel> panels;
  for (std::size_t site = 0; site < kSites; ++site) {
    for (std::size_t after : {0, 1}) {
      std::vector<std::size_t> all = {site, after};
      all.insert(all.end(), indices.begin(), indices.end());
      const std::string title = cat(after ? "after" : "before", " norm", site + 1);
      panels.push_back(line_panel(in, title, key, all));
    }
  }
  return panels;
}

// Variance explained by both components together, in percent.
std::vector<LinePanel> explained(const FigureInput& in) {
  std::vector<LinePanel> panels = before_and_after(in, "pca.directions.explained", {0});
  const std::vector<LinePanel> second = before_and_after(in, "pca.directions.explained", {1});
  for (std::size_t p = 0; p < panels.size(); ++p) {
    for (std::size_t r = 0; r < panels[p].values.size(); ++r) {
      std::vector<double>& values = panels[p].values[r];
      std::ranges::transform(values, second[p].values[r], values.begin(),
                             [](double a, double b) { return 100 * (a + b); });
    }
  }
  return panels;
}

// CKA matrix of a pair of runs. Its sides are layers; layer 0 is the input of the first block.
struct Similarity {
  std::string rows, columns;  // names of the runs
  std::size_t n_rows = 0, n_columns = 0;
  std::vector<double> values;
};

std::vector<Similarity> similarities(const FigureInput& in) {
  std::vector<Similarity> out;
  const AnalysisJson& pairs = member(in.analysis, "cka");
  for (std::size_t i = 0; pairs.is_array() && i < pairs.size(); ++i) {
    const AnalysisJson& matrix = member(pairs[i], "matrix");
    const double a = number_of(member(pairs[i], "a")), b = number_of(member(pairs[i], "b"));
    const auto known = [&in](double index) {
      return index >= 0 && index < static_cast<double>(in.runs.size());
    };
    if (!known(a) || !known(b) || !matrix.is_array()) continue;
    Similarity s{in.runs[static_cast<std::size_t>(a)].name,
                 in.runs[static_cast<std::size_t>(b)].name,
                 matrix.size(),
                 0,
                 {}};
    for (const AnalysisJson& row : matrix) s.n_columns = std::max(s.n_columns, row.size());
    for (const AnalysisJson& row : matrix) {
      for (std::size_t k = 0; k < s.n_columns; ++k) s.values.push_back(number_of(item(row, k)));
    }
    if (any_number(s.values)) out.push_back(std::move(s));
  }
  return out;
}

// Labels every layer, every second or every fifth, depending on the room.
void label_layers(plot::Canvas& canvas, const plot::Box& box, const Similarity& s) {
  const auto step = [](std::size_t n) {
    return n <= 7 ? std::size_t{1} : n <= 14 ? std::size_t{2} : std::size_t{5};
  };
  for (std::size_t l = 0; l < s.n_columns; l += step(s.n_columns)) {
    const double at =
        box.x + (static_cast<double>(l) + 0.5) * box.width / static_cast<double>(s.n_columns);
    canvas.text({at, box.bottom() + 15}, cat(l),
                {plot::kSmallText, plot::Anchor::kMiddle, plot::kSoft});
  }
  for (std::size_t l = 0; l < s.n_rows; l += step(s.n_rows)) {  // the first layer is at the bottom
    const double at =
        box.bottom() - (static_cast<double>(l) + 0.5) * box.height / static_cast<double>(s.n_rows);
    canvas.text({box.x - 6, at + 4}, cat(l), {plot::kSmallText, plot::Anchor::kEnd, plot::kSoft});
  }
  canvas.text({box.x + box.width / 2, box.bottom() + 33},
              plot::fitted("layer of " + s.columns, plot::kText, box.width + 40),
              {plot::kText, plot::Anchor::kMiddle});
  canvas.text({box.x - 30, box.y + box.height / 2},
              plot::fitted("layer of " + s.rows, plot::kText, box.height + 20),
              {plot::kText, plot::Anchor::kMiddle, plot::kInk, false, true});
}

plot::Table similarity_table(const std::vector<Similarity>& all) {
  plot::Table table{{"pair", "layer"}, {}};
  std::size_t most = 0;
  for (const Similarity& s : all) {
    most = std::max(most, s.n_columns);
    for (std::size_t i = 0; i < s.n_rows; ++i) {
      std::vector<std::string> row = {s.rows + " / " + s.columns, cat(i)};
      for (std::size_t k = 0; k < s.n_columns; ++k) {
        row.push_back(plot::readable(s.values[i * s.n_columns + k], 3));
      }
      table.rows.push_back(std::move(row));
    }
  }
  for (std::size_t k = 0; k < most; ++k) table.columns.push_back(cat(k));
  return table;
}

}  // namespace

void add_token_likeness(const FigureInput& in, Figures& out) {
  add_layer_lines(in,
                  {"pca_spread", "Spread of the tokens' directions in the plane", "rms distance",
                   "Root mean square distance from the centre in the plane of the first two "
                   "principal components; each token is divided by its length first.",
                   before_and_after(in, "pca.directions.spread")},
                  out);
  LayerLines raw{"pca_raw_spread", "Spread of the tokens themselves in the plane", "rms distance",
                 "The same without dividing tokens by their lengths. Each panel has its own scale, "
                 "because norms change lengths.",
                 before_and_after(in, "pca.raw.spread")};
  raw.shared = false;
  add_layer_lines(in, std::move(raw), out);
  LayerLines share{"pca_explained", "Variance of the tokens' directions in two components",
                   "share (%)",
                   "Share of the variance in the first two principal components; if it is low, the "
                   "plane shows little.",
                   explained(in)};
  share.y.limit = plot::kPercent;
  add_layer_lines(in, std::move(share), out);
  LayerLines cosine{"token_cosine", "Similarity of an image's tokens", "mean cosine",
                    "Mean cosine between two different tokens of an image; 1: all tokens have the "
                    "same direction.",
                    before_and_after(in, "token_cosine")};
  cosine.y.limit = {-1, 1};
  add_layer_lines(in, std::move(cosine), out);
}

void add_signals(const FigureInput& in, Figures& out) {
  LayerLines rms{"residual_rms",
                 "Magnitude of the residual stream and its branches",
                 "root mean square",
                 "Root mean square, over images, tokens and channels, of the residual stream (0: "
                 "input of the first block) and of the outputs of attention and MLP.",
                 {line_panel(in, "residual stream", "residual_rms", {}, 1),
                  line_panel(in, "attention branch", "branch_rms", {0}),
                  line_panel(in, "MLP branch", "branch_rms", {1})}};
  rms.shared = false;
  add_layer_lines(in, std::move(rms), out);
  LayerLines gradients{"gradient_norm",
                       "Gradient norms",
                       "norm",
                       "Euclidean norm of the gradient of the mean loss over all "
                       "parameters of a block, and over those of its norms, attention and MLP.",
                       {line_panel(in, "whole block", "gradient_norm", {}),
                        line_panel(in, "norms", "branch_gradient_norm", {0}),
                        line_panel(in, "attention", "branch_gradient_norm", {1}),
                        line_panel(in, "MLP", "branch_gradient_norm", {2})}};
  gradients.shared = false;
  add_layer_lines(in, std::move(gradients), out);
}

void add_cka(const FigureInput& in, Figures& out) {
  const std::vector<Similarity> all = similarities(in);
  if (all.empty()) return;
  const std::string title = "Similarity of representations (linear CKA)";
  const double head = head_height({}) + 62;
  const std::size_t columns = std::clamp<std::size_t>(all.size(), 2, 3);
  const std::size_t rows = (all.size() + columns - 1) / columns;
  const double pitch = (kFigureWidth - 8) / static_cast<double>(columns), side = pitch - 74;
  const double width = all.size() == 1 ? pitch + 60 : kFigureWidth;
  plot::Canvas canvas(width, head + (side + 60) * static_cast<double>(rows));
  draw_head(canvas, title, cat(in.data, "; few samples bias it upwards"), {});
  const plot::ColorScale scale{{0, 1}, plot::ColorMap::kViridis, false};
  plot::draw_color_bar(canvas, {kFigureSide, 78, 220, 10}, scale, "CKA");
  plot::HeatSheet sheet(scale.map);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Similarity& s = all[i];
    const std::size_t line = i / columns;
    const plot::Box box = {62 + pitch * static_cast<double>(i % columns),
                           head + (side + 60) * static_cast<double>(line), side, side};
    std::vector<double> upside_down;
    for (std::size_t r = s.n_rows; r-- > 0;) {
      const double* row = &s.values[r * s.n_columns];
      upside_down.insert(upside_down.end(), row, row + s.n_columns);
    }
    sheet.add(box, upside_down, static_cast<std::int64_t>(s.n_rows),
              static_cast<std::int64_t>(s.n_columns), scale);
    label_layers(canvas, box, s);
  }
  sheet.draw(canvas);
  out.push_back(make_figure(
      "cka", title,
      "Similarity of the tokens of two layers in any basis; 1: a rotation and a scaling map one "
      "layer to the other. Layer 0 is the input of the first block. With few samples the value is "
      "too high.",
      cat(title, ", ", in.data, ": matrices of layers for ", all.size(), " pairs of runs"), canvas,
      similarity_table(all)));
}

}  // namespace dtn::drawing
