#include <algorithm>

#include "apps/sweep/sweep_report.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/chart.h"
#include "plot/panel.h"
#include "plot/text.h"

namespace dtn {
namespace {

constexpr double kWidth = 760;                          // of a picture
constexpr double kDtnWeight = 1.7, kOtherWeight = 0.8;  // line widths

const SweepVariant& variant_of(const SweepReport& report, const VariantResult& r) {
  return report.sweep.variants[r.variant];
}

bool is_dtn(const SweepReport& report, const VariantResult& r) {
  return variant_of(report, r).config.model.norm.type == "dtn";
}

std::string subtitle_of(const SweepReport& report) {
  std::size_t least = SIZE_MAX, most = 0;
  for (const VariantResult& r : report.results) {
    if (r.runs.empty()) continue;
    least = std::min(least, r.runs.size());
    most = std::max(most, r.runs.size());
  }
  if (most <= 1) return "one seed each";
  return least == most ? cat(most, " seeds each; bands: minimum to maximum")
                       : cat(least, " to ", most, " seeds; bands: minimum to maximum");
}

// Returns the variants with finished runs, the best first.
std::vector<const VariantResult*> by_result(const SweepReport& report) {
  std::vector<const VariantResult*> order;
  for (const VariantResult& r : report.results) {
    if (!r.runs.empty()) order.push_back(&r);
  }
  const bool up = report.sweep.metric.figure.higher_is_better;
  std::ranges::stable_sort(order, [&](const VariantResult* a, const VariantResult* b) {
    return up ? a->metric->mean > b->metric->mean : a->metric->mean < b->metric->mean;
  });
  return order;
}

plot::Series curve_of(const SweepReport& report, const VariantResult& r) {
  std::vector<plot::Series> runs;
  for (const RunResult& run : r.runs) {
    plot::Series& one = runs.emplace_back();
    for (const CurvePoint& e : run.curve) {
      one.x.push_back(e.epoch);
      one.y.push_back(e.metric);
    }
  }
  plot::Series series = plot::mean_of(runs);
  series.label = variant_of(report, r).label;
  series.style = r.variant;
  series.weight = is_dtn(report, r) ? kDtnWeight : kOtherWeight;
  return series;
}

// A panel with rows from top to bottom and values from left to right.
class RowPanel {
 public:
  RowPanel(plot::Canvas& canvas, const plot::Box& area, std::vector<std::string> rows,
           const plot::Axis& values, const plot::PanelLook& look)
      : canvas_(canvas), last_(static_cast<double>(rows.size()) - 1) {
    std::ranges::reverse(rows);
    plot::Axis names;
    names.categories = std::move(rows);
    panel_.emplace(canvas, area, values, names, look);
  }

  void dot(std::size_t row, double value, std::size_t style, double size) {
    canvas_.marker(at(row, value), plot::series_marker(style), plot::series_paint(style), size);
  }
  void mean(std::size_t row, double value, std::size_t style, double weight) {
    constexpr double kHalf = 9;
    const plot::Point p = at(row, value);
    canvas_.line({p.x, p.y - kHalf}, {p.x, p.y + kHalf}, {plot::series_paint(style), 2.2 * weight});
  }

 private:
  plot::Point at(std::size_t row, double value) const {
    return {panel_->x(value), panel_->y(last_ - static_cast<double>(row))};
  }

  plot::Canvas& canvas_;
  double last_;
  std::optional<plot::Panel> panel_;
};

plot::Axis axis_of_values(const SweepReport& report, const std::string& label) {
  plot::Axis axis;
  axis.label = label;
  if (report.sweep.metric.figure.percent) axis.limit = plot::kPercent;
  return axis;
}

}  // namespace

std::string curves_svg(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  plot::Chart chart{.title = sweep.title, .subtitle = subtitle_of(report), .width = kWidth};
  chart.height += plot::kHeightPerWidth * (kWidth - plot::kCellWidth);
  chart.x.label = "epoch";
  chart.y = axis_of_values(report, figure_title(sweep.metric.figure));
  for (const VariantResult& r : report.results) {
    if (!r.runs.empty()) chart.series.push_back(curve_of(report, r));
  }
  const std::string order =
      config::join(by_result(report), ", ", [&](auto* r) { return variant_of(report, *r).label; });
  return plot::draw_chart(chart, cat(figure_title(sweep.metric.figure),
                                     " over the epochs; from best to worst: ", order));
}

std::string values_svg(const SweepReport& report) {
  constexpr double kRow = 30, kTop = 70, kBelow = 50, kSide = 16, kBetween = 36;
  constexpr double kRight = 26;  // half the label of the last tick, of up to seven digits
  constexpr double kDot = 6, kPaperDot = 9;
  const SweepConfig& sweep = report.sweep;
  std::vector<std::string> rows;
  double names = 0;
  plot::Axis here = axis_of_values(report, metric_title(sweep)), there = here;
  for (const VariantResult& r : report.results) {
    const SweepVariant& variant = variant_of(report, r);
    rows.push_back(plot::fitted(variant.label, plot::kSmallText, kWidth / 3));
    names = std::max(names, plot::text_width(rows.back(), plot::kSmallText));
    for (const RunResult& run : r.runs) here.data.take_in(run.value);
    if (variant.paper) there.data.take_in(*variant.paper);
  }
  const bool paper = !there.data.empty();
  const double height = kTop + kRow * static_cast<double>(rows.size()) + kBelow;
  const double left = kSide + names + 12, room = kWidth - left - kRight;
  const double width = paper ? (room - kBetween) / 2 : room;
  plot::Canvas canvas(kWidth, height);
  canvas.text({kSide, 24}, plot::fitted(sweep.title, plot::kTitleText, kWidth - 2 * kSide),
              {plot::kTitleText, plot::Anchor::kStart, plot::kInk, true});
  const double tall = height - kTop - kBelow;
  RowPanel ours(canvas, {left, kTop, width, tall}, rows, here, {.title = "here"});
  std::optional<RowPanel> theirs;
  if (paper) {
    theirs.emplace(canvas, plot::Box{left + width + kBetween, kTop, width, tall}, rows, there,
                   plot::PanelLook{.y_labels = false, .title = "in the paper"});
  }
  for (const VariantResult& r : report.results) {
    const double weight = is_dtn(report, r) ? kDtnWeight : kOtherWeight;
    if (r.metric) ours.mean(r.variant, r.metric->mean, r.variant, weight);
    for (const RunResult& run : r.runs) ours.dot(r.variant, run.value, r.variant, kDot);
    const auto& figure = variant_of(report, r).paper;
    if (figure) theirs->dot(r.variant, *figure, r.variant, kPaperDot);
  }
  return canvas.svg(cat(metric_title(sweep), " of each variant, one dot per seed",
                        paper ? ", and the results of the paper" : ""));
}

}  // namespace dtn
