#include "apps/report/run_figures.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/report/analysis/figure_parts.h"
#include "apps/report/picture_figures.h"
#include "apps/report/run_quantities.h"
#include "dtn/core/check.h"
#include "plot/chart_figure.h"
#include "plot/heat_map.h"
#include "plot/hover.h"
#include "plot/panel.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr std::size_t kSmoothPoints = 60;  // per smoothed line

// The line of a group in a split: a run, or the mean of several at the epochs that all of them
// have. `logged` has the values of the record, and `drawn` the smoothed ones of a noisy quantity.
struct Line {
  plot::Series drawn, logged;
  std::string split;
  std::size_t group = 0;
  std::size_t runs = 0;    // that log the quantity
  bool shortened = false;  // a run goes on after the end of the line
};

// Style of a split among the lines of a single group.
std::size_t style_of_split(const RunGroup& group, const std::string& split) {
  if (split == kTraining) return 0;
  if (split == "val") return 1;
  if (split == "val_ema") return 2;
  const auto& all = group.runs.front().evaluations;
  return 3 + static_cast<std::size_t>(std::distance(all.begin(), all.find(split)));
}

// Marks the label of a line that some runs of its group have no values for.
std::string share_of_runs(std::span<const RunGroup> groups, const Line& line) {
  const std::size_t all = groups[line.group].runs.size();
  return line.runs == all ? "" : cat(" (", line.runs, " of ", all, " runs)");
}

std::optional<Line> line_of(std::span<const RunGroup> groups, std::size_t g, const Quantity& q,
                            const std::string& split) {
  const bool smooth = split == kTraining && q.smooth, single = groups.size() == 1;
  const GroupCurves curves = curves_in(groups[g], split, q.key);
  std::vector<plot::Series> drawn;
  for (const plot::Series& run : curves.runs) {  // all have the same x, also when coarser
    const bool many = run.x.size() >= 2 * kSmoothPoints;
    drawn.push_back(smooth && many ? plot::coarser(run, kSmoothPoints) : run);
  }
  Line line{.drawn = plot::mean_of(drawn),
            .logged = plot::mean_of(curves.runs),
            .split = split,
            .group = g,
            .runs = curves.runs.size(),
            .shortened = curves.shortened};
  if (line.logged.y.empty()) return std::nullopt;
  const bool merged = q.splits.size() > 1;
  line.logged.label = single   ? split_name(split)
                      : merged ? cat(groups[g].label, ", ", split_name(split))
                               : groups[g].label;
  line.logged.label += share_of_runs(groups, line);
  line.logged.style = single ? style_of_split(groups[g], split) : g;
  line.logged.markers = split != kTraining || (!single && !merged);
  line.drawn.style = line.logged.style;
  line.drawn.markers = line.logged.markers;
  return line;
}

// Returns the lines of a figure, in the order of the groups and of the quantity's splits.
std::vector<Line> lines_of(std::span<const RunGroup> groups, const Quantity& q) {
  std::vector<Line> lines;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::string& split : q.splits) {
      if (auto line = line_of(groups, g, q, split)) lines.push_back(std::move(*line));
    }
  }
  return lines;
}

// Names the lines of a legend. Of several groups, each has one entry in every figure.
void set_labels(std::span<const RunGroup> groups, std::vector<Line>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool first = i == 0 || lines[i].group != lines[i - 1].group;
    const bool last = i + 1 == lines.size() || lines[i].group != lines[i + 1].group;
    if (groups.size() == 1) {
      const bool partial = !share_of_runs(groups, lines[i]).empty();
      if (lines.size() > 1 || partial) lines[i].drawn.label = lines[i].logged.label;
    } else if (last) {  // the evaluation, which has markers
      lines[i].drawn.label = groups[lines[i].group].label + share_of_runs(groups, lines[i]);
    }
    if (groups.size() > 1 && first && last) lines[i].drawn.markers = lines[i].logged.markers = true;
  }
}

bool is_smoothed(const Line& line) { return line.drawn.x.size() < line.logged.x.size(); }

bool has_shortened(const std::vector<Line>& lines) {
  return std::ranges::any_of(lines, [](const Line& line) { return line.shortened; });
}

// Returns the caption of the quantity, and where the lines end if a run goes on.
std::string caption_of(const Quantity& q, const std::vector<Line>& lines) {
  if (!has_shortened(lines)) return q.caption;
  return cat(q.caption, q.caption.empty() ? "" : " ",
             "A mean and its band end where the first run ends. "
             "The table names the last epoch that all runs have.");
}

std::string subtitle_of(std::span<const RunGroup> groups, const std::vector<Line>& lines) {
  std::string text;
  const bool seeds =
      std::ranges::any_of(groups, [](const RunGroup& g) { return g.runs.size() > 1; });
  const bool smoothed = std::ranges::any_of(lines, is_smoothed);
  if (groups.size() == 1 && !seeds) {
    return smoothed ? "pale: logged values; line: means of neighbours" : "";
  }
  if (std::ranges::any_of(lines, [](const Line& l) { return !l.drawn.markers; })) {
    text = "without markers: training";
    if (smoothed) text += ", means of neighbouring steps";
  } else if (smoothed) {
    text = "means of neighbouring steps";
  }
  if (!seeds) return text;
  text += cat(text.empty() ? "" : "; ", "bands: minimum to maximum");
  return text + (has_shortened(lines) ? " until a run ends" : " of several runs");
}

// Returns the values of the lines. The last one is at the last epoch that all runs of a line have.
plot::Table last_values(const std::vector<Line>& lines, std::span<const RunGroup> groups) {
  plot::Table table{
      {groups.size() == 1 ? "line" : "run", "first", "last", "last epoch", "min", "max", "runs"},
      {}};
  for (const Line& line : lines) {
    const std::vector<double>& y = line.logged.y;
    const auto [least, most] = std::ranges::minmax(y);
    table.rows.push_back({line.logged.label, plot::readable(y.front()), plot::readable(y.back()),
                          plot::readable(line.logged.x.back()), plot::readable(least),
                          plot::readable(most), cat(line.runs)});
  }
  return table;
}

// All charts of a page have the same axis of epochs.
plot::Range epochs_of(std::span<const RunGroup> groups) {
  plot::Range range = {0, 0};
  for (const RunGroup& group : groups) {
    for (const RunRecord& run : group.runs) range.take_in(run.epoch);
  }
  return range;
}

// Leaves room above a schedule: a constant value at a whole tick would lie on the frame.
void keep_off_frame(plot::Chart& chart) {
  for (const plot::Series& series : chart.series) {
    for (const double y : series.y) chart.y.data.take_in(1.02 * y);
  }
}

std::optional<plot::Figure> draw_quantity(std::span<const RunGroup> groups, const Quantity& q,
                                          double width) {
  std::vector<Line> lines = lines_of(groups, q);
  if (lines.empty()) return std::nullopt;
  set_labels(groups, lines);
  plot::Chart chart{.title = q.title, .subtitle = subtitle_of(groups, lines), .width = width};
  chart.height += plot::kHeightPerWidth * (width - plot::kCellWidth);
  chart.x = {.label = "epoch", .data = epochs_of(groups)};
  chart.x.whole = chart.x.data.high >= 4;
  chart.y.label = q.label;
  chart.y.log = q.log;
  if (q.percent) chart.y.limit = plot::kPercent;
  chart.rules = q.rules;
  std::vector<plot::Series> values;
  for (const Line& line : lines) {
    chart.series.push_back(line.drawn);
    values.push_back(line.logged);
    const bool one = groups.size() == 1 && groups[0].runs.size() == 1;
    if (one && is_smoothed(line)) chart.raw.push_back(line.logged);
  }
  if (!q.smooth) keep_off_frame(chart);
  plot::Figure figure = plot::chart_figure(q.name, chart, cat(q.title, " over the epochs"));
  figure.caption = caption_of(q, lines);
  figure.table = last_values(lines, groups);
  figure.values = plot::hover_values(chart.x.label, values);
  return figure;
}

// Converts the record to the form of an analysis, and draws its lambda_history.
void add_lambda_figures(const RunRecord& run, std::vector<plot::Figure>& out) {
  const AnalysisJson& first = item(member(run.lambdas, "lambda_mean"), 0);
  if (!first.is_array()) return;
  AnalysisJson heads = AnalysisJson::array();
  for (const AnalysisJson& layer : first) {
    std::size_t most = 0;
    for (std::size_t site = 0; site < kSites; ++site) {
      most = std::max(most, numbers_of(item(layer, site)).size());
    }
    heads.push_back(most);
  }
  const AnalysisJson checkpoint = {{"name", run.name},
                                   {"depth", heads.size()},
                                   {"heads", heads},
                                   {"lambda_history", run.lambdas}};
  const AnalysisJson analysis = {{"checkpoints", AnalysisJson::array({checkpoint})}};
  add_lambda_history({analysis, read_runs(analysis), {}, {}}, out);
}

std::vector<std::string> parts_of(const RunRecord& run) {
  std::vector<std::string> parts;
  const AnalysisJson& norms = member(item(run.gradients, 0), "gradient_norm");
  if (!norms.is_object()) return parts;
  for (const auto& [part, norm] : norms.items()) parts.push_back(part);
  return parts;
}

// Norms of the gradients of the parts of a model: log10, [parts][times].
struct GradientNorms {
  std::vector<std::string> parts;
  std::vector<double> values;
  std::string first, last;  // "epoch 1", "epoch 20"
  std::size_t times = 0;
};

// Draws a row for each part of the model, and a column for each evaluation.
std::string draw_norms(const GradientNorms& norms, const std::string& title, double picture_width) {
  constexpr double kRow = 18, kBelow = 50, kRight = 20, kBar = 220;
  const bool narrow = picture_width < kFigureWidth;
  plot::ColorScale scale;
  scale.range.take_in(norms.values);
  double names = 0;
  for (const std::string& part : norms.parts) {
    names = std::max(names, plot::text_width(part, plot::kSmallText));
  }
  const double left = kFigureSide + names + 10, top = narrow ? 120 : 86;
  const plot::Box area = {left, top, picture_width - left - kRight,
                          kRow * static_cast<double>(norms.parts.size())};
  plot::Canvas canvas(picture_width, area.bottom() + kBelow);
  draw_head(canvas, title, "one column per evaluation; logarithmic colours", {}, picture_width);
  plot::HeatSheet sheet(scale.map);
  sheet.add(area, norms.values, static_cast<std::int64_t>(norms.parts.size()),
            static_cast<std::int64_t>(norms.times), scale);
  sheet.draw(canvas);
  canvas.frame(area, {plot::kSoft, 0.8});
  for (std::size_t i = 0; i < norms.parts.size(); ++i) {
    canvas.text({left - 6, top + kRow * (static_cast<double>(i) + 0.5) + 4}, norms.parts[i],
                {plot::kSmallText, plot::Anchor::kEnd, plot::kSoft});
  }
  canvas.text({left, area.bottom() + 16}, norms.first,
              {plot::kSmallText, plot::Anchor::kStart, plot::kSoft});
  canvas.text({area.right(), area.bottom() + 16}, norms.last,
              {plot::kSmallText, plot::Anchor::kEnd, plot::kSoft});
  const plot::Box bar = {narrow ? kFigureSide : picture_width - kBar - kRight, narrow ? 74.0 : 34.0,
                         kBar, 10};
  plot::draw_color_bar(canvas, bar, scale, "logarithm of the norm, base 10");
  return canvas.svg(title);
}

void add_gradient_figure(const RunRecord& run, std::vector<plot::Figure>& out) {
  GradientNorms norms{
      .parts = parts_of(run), .values = {}, .first = {}, .last = {}, .times = run.gradients.size()};
  if (norms.parts.empty() || norms.times < 2) return;
  plot::Table table{{"part", "first", "last"}, {}};
  for (const std::string& part : norms.parts) {
    std::vector<double> row;
    for (const AnalysisJson& line : run.gradients) {
      const AnalysisJson& of_parts = member(line, "gradient_norm");
      const auto at = of_parts.is_object() ? of_parts.find(part) : of_parts.end();
      row.push_back(at == of_parts.end() ? plot::kMissing : number_of(*at));
    }
    table.rows.push_back({part, plot::readable(row.front()), plot::readable(row.back())});
    for (const double v : row) norms.values.push_back(v > 0 ? std::log10(v) : plot::kMissing);
  }
  const auto epoch = [](const AnalysisJson& line) {
    return cat("epoch ", plot::readable(number_of(member(line, "epoch")), 3));
  };
  norms.first = epoch(run.gradients.front());
  norms.last = epoch(run.gradients.back());
  const std::string title = "Gradient norm in each part of the model";
  out.push_back({.name = "gradient_parts",
                 .title = title,
                 .caption = "Before clipping of their global norm, and after clipping of single "
                            "tensors. A part that stays dark learns little; one that grows may "
                            "diverge.",
                 .description = title,
                 .svg = draw_norms(norms, title, kFigureWidth),
                 .table = table,
                 .phone_svg = draw_norms(norms, "Gradient norm of each part", plot::kPhoneWidth)});
}

void add_samples(const RunRecord& run, std::vector<plot::Figure>& out) {
  constexpr std::size_t kSizeAt = 16;  // offset in a PNG: width, then height, big-endian
  if (run.samples.size() < kSizeAt + 8) return;
  const auto number_at = [&](std::size_t at) {
    double n = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      n = 256 * n + static_cast<unsigned char>(run.samples[at + i]);
    }
    return n;
  };
  const double pixels = number_at(kSizeAt), rows = number_at(kSizeAt + 4);
  if (pixels < 1 || rows < 1) return;
  out.push_back(picture_figure("samples", "Training images", run.samples, rows / pixels,
                               "Training images of the first batch, with the augmentation of the "
                               "config."));
}

}  // namespace

std::vector<plot::Figure> curve_figures(std::span<const RunGroup> groups, double width) {
  std::vector<plot::Figure> figures;
  for (const Quantity& q : quantities_of(groups)) {
    if (auto figure = draw_quantity(groups, q, width)) figures.push_back(std::move(*figure));
  }
  return figures;
}

std::vector<plot::Figure> inner_figures(const RunRecord& run) {
  std::vector<plot::Figure> figures;
  add_lambda_figures(run, figures);
  add_gradient_figure(run, figures);
  add_samples(run, figures);
  return figures;
}

}  // namespace dtn
