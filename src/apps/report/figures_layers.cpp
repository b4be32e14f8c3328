// Figures with one number per layer, and matrices of layers.
#include <algorithm>
#include <cmath>

#include "apps/report/figure_groups.h"
#include "apps/report/layer_lines.h"
#include "dtn/core/check.h"
#include "plot/heat_map.h"
#include "plot/text.h"

namespace dtn::drawing {
namespace {

void add_lines(const FigureInput& in, LayerLines what, Figures& out) {
  what.data = in.data;
  if (auto figure = draw_layer_lines(in.runs, std::move(what))) out.push_back(std::move(*figure));
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
                     const std::vector<std::size_t>& indices) {
  LinePanel panel{title, {}, false};
  for (const AnalyzedRun& run : in.runs) {
    panel.values.push_back(along_layers(run, key, indices));
  }
  return panel;
}

// Panels of norm1 and norm2, before and after the norm.
std::vector<LinePanel> before_and_after(const FigureInput& in, std::string_view key) {
  std::vector<LinePanel> panels;
  for (std::size_t site = 0; site < kSites; ++site) {
    for (std::size_t after : {0, 1}) {
      panels.push_back(
          line_panel(in, cat(after ? "after" : "before", " norm", site + 1), key, {site, after}));
    }
  }
  return panels;
}

// Variance explained by both components together, in percent.
std::vector<LinePanel> explained(const FigureInput& in) {
  std::vector<LinePanel> panels;
  for (std::size_t site = 0; site < kSites; ++site) {
    for (std::size_t after : {0, 1}) {
      const std::string key = "pca.directions.explained";
      LinePanel first =
          line_panel(in, cat(after ? "after" : "before", " norm", site + 1), key, {site, after, 0});
      const LinePanel second = line_panel(in, "", key, {site, after, 1});
      for (std::size_t r = 0; r < first.values.size(); ++r) {
        for (std::size_t l = 0; l < first.values[r].size(); ++l) {
          first.values[r][l] = 100 * (first.values[r][l] + second.values[r][l]);
        }
      }
      panels.push_back(std::move(first));
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
  LayerLines spread{"pca_spread",
                    "Spread of the tokens' directions in the plane",
                    "rms distance",
                    "",
                    "Root mean square distance from the centre in the plane of the first two "
                    "principal components; each token is divided by its length first.",
                    before_and_after(in, "pca.directions.spread")};
  add_lines(in, std::move(spread), out);
  LayerLines raw{"pca_raw_spread",
                 "Spread of the tokens themselves in the plane",
                 "rms distance",
                 "",
                 "The same without dividing tokens by their lengths. Each panel has its own scale, "
                 "because norms change lengths.",
                 before_and_after(in, "pca.raw.spread")};
  raw.shared = false;
  add_lines(in, std::move(raw), out);
  LayerLines share{"pca_explained",
                   "Variance of the tokens' directions in two components",
                   "share (%)",
                   "",
                   "Share of the variance in the first two principal components; if it is low, the "
                   "plane shows little.",
                   explained(in)};
  share.y.limit = plot::kPercent;
  add_lines(in, std::move(share), out);
  LayerLines cosine{"token_cosine",
                    "Similarity of an image's tokens",
                    "mean cosine",
                    "",
                    "Mean cosine between two different tokens of an image; 1: all tokens have the "
                    "same direction.",
                    before_and_after(in, "token_cosine")};
  cosine.y.limit = {-1, 1};
  add_lines(in, std::move(cosine), out);
}

void add_signals(const FigureInput& in, Figures& out) {
  LinePanel residual{"residual stream", {}, true};
  for (const AnalyzedRun& run : in.runs) {
    residual.values.push_back(along_layers(run, "residual_rms", {}, 1));
  }
  LayerLines rms{"residual_rms",
                 "Magnitude of the residual stream and its branches",
                 "root mean square",
                 "",
                 "Root mean square, over images, tokens and channels, of the residual stream (0: "
                 "input of the first block) and of the outputs of attention and MLP.",
                 {residual, line_panel(in, "attention branch", "branch_rms", {0}),
                  line_panel(in, "MLP branch", "branch_rms", {1})}};
  rms.shared = false;
  add_lines(in, std::move(rms), out);
  LayerLines gradients{
      "gradient_norm",
      "Gradient norms",
      "norm",
      "",
      "Euclidean norm of the gradient of the mean cross entropy over all parameters "
      "of a block, and over those of its norms, attention and MLP.",
      {line_panel(in, "whole block", "gradient_norm", {}),
       line_panel(in, "norms", "branch_gradient_norm", {0}),
       line_panel(in, "attention", "branch_gradient_norm", {1}),
       line_panel(in, "MLP", "branch_gradient_norm", {2})}};
  gradients.shared = false;
  add_lines(in, std::move(gradients), out);
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
    const plot::Box box = {62 + pitch * static_cast<double>(i % columns),
                           head + (side + 60) * static_cast<double>(i / columns), side, side};
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
