#include "apps/report/label_report_figures.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "apps/report/analysis/figure_parts.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/chart_figure.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr double kWidth = 720;
constexpr std::size_t kCurvePoints = 100;

// Returns the classes that have samples by rising average precision, at most kDrawnCurves.
std::vector<std::int64_t> drawn_classes(const LabelReport& report) {
  std::vector<std::int64_t> labels;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    if (report.figures.classes[c].ap) labels.push_back(static_cast<std::int64_t>(c));
  }
  std::ranges::stable_sort(labels, {}, [&](std::int64_t label) {
    return *report.figures.classes[static_cast<std::size_t>(label)].ap;
  });
  if (labels.size() > kDrawnCurves) labels.resize(kDrawnCurves);
  return labels;
}

// Returns the points of a class as steps, in percent.
plot::Series steps_of(const std::vector<PrecisionAtRecall>& curve) {
  plot::Series line;
  for (const PrecisionAtRecall& point : curve) {
    line.x.push_back(100 * point.recall);
    line.y.push_back(100 * point.precision);
  }
  return line;
}

std::string draw_curves(const LabelReport& report, const std::vector<std::int64_t>& labels,
                        double width, std::size_t columns, const std::string& description) {
  constexpr double kLeft = 52, kTop = 24, kBottom = 34, kGap = 14;
  const double of_one = (width - kGap) / static_cast<double>(columns);
  const double side = of_one - kLeft - kGap;
  const double height_of_one = kTop + side + kBottom;
  const std::size_t rows = (labels.size() + columns - 1) / columns;
  plot::Canvas canvas(width, static_cast<double>(rows) * height_of_one + 16);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::size_t column = i % columns, row = i / columns;
    const bool last_row = i + columns >= labels.size();
    const plot::Box box = {static_cast<double>(column) * of_one + kLeft,
                           static_cast<double>(row) * height_of_one + kTop, side, side};
    const double ap = *report.figures.classes[static_cast<std::size_t>(labels[i])].ap;
    const std::string number = format(" %.1f", 100 * ap);
    const plot::Axis recall = {
        .label = last_row ? "recall (%)" : "", .data = plot::kPercent, .round = false};
    const plot::Axis precision = {
        .label = column == 0 ? "precision (%)" : "", .data = plot::kPercent, .round = false};
    plot::Panel panel(canvas, box, recall, precision,
                      {.title = panel_title(report.class_name(labels[i]), number, side)});
    panel.line(steps_of(curve_of(report, labels[i], kCurvePoints)), false);
  }
  return canvas.svg(description);
}

}  // namespace

plot::Figure curves_figure(const LabelReport& report) {
  const std::vector<std::int64_t> labels = drawn_classes(report);
  plot::Table table{{"class", "AP (%)", report.noun}, {}};
  for (const std::int64_t label : labels) {
    const LabelFigures& f = report.figures.classes[static_cast<std::size_t>(label)];
    table.rows.push_back({report.class_name(label), format("%.2f", 100 * *f.ap), cat(f.support)});
  }
  const auto measured = std::ranges::count_if(
      report.figures.classes, [](const LabelFigures& f) { return f.ap.has_value(); });
  const std::string which = measured > std::ssize(labels)
                                ? cat(" Of ", measured, " classes, the ", labels.size(),
                                      " with the lowest average precision are drawn.")
                                : std::string();
  const std::string description = "precision over recall of each class";
  return {.name = "curves",
          .title = "Precision over recall",
          .caption = cat("One curve for each class, with its average precision in percent: from "
                         "a high threshold on the left to a low one on the right.",
                         which),
          .description = description,
          .svg = draw_curves(report, labels, kWidth,
                             std::min<std::size_t>(4, std::max<std::size_t>(2, labels.size())),
                             description),
          .table = std::move(table),
          .phone_svg = draw_curves(report, labels, plot::kPhoneWidth, 2, description)};
}

plot::Figure threshold_figure(const LabelReport& report) {
  const std::vector<ThresholdFigures> all = over_thresholds(report);
  plot::Series f1{.label = "micro F1"}, precision{.label = "precision", .style = 1},
      recall{.label = "recall", .style = 2};
  plot::Table table{{"threshold", "micro F1 (%)", "precision (%)", "recall (%)"}, {}};
  for (const ThresholdFigures& at : all) {
    for (auto* series : {&f1, &precision, &recall}) series->x.push_back(at.threshold);
    f1.y.push_back(100 * at.f1);
    precision.y.push_back(100 * at.precision);
    recall.y.push_back(100 * at.recall);
    table.rows.push_back({format("%.2f", at.threshold), format("%.1f", 100 * at.f1),
                          format("%.1f", 100 * at.precision), format("%.1f", 100 * at.recall)});
  }
  plot::Chart chart{.title = "Figures over the threshold"};
  chart.x = {.label = "threshold", .data = {0, 1}, .round = false};
  chart.y = {.label = "%", .data = plot::kPercent, .round = false, .limit = plot::kPercent};
  chart.series = {f1, precision, recall};
  plot::Figure figure =
      plot::chart_figure("threshold", chart, "micro F1, precision and recall over the threshold");
  figure.caption = format(
      "Over all classes together. The model's threshold is %.4f. A higher one "
      "makes predictions rarer and surer, a lower one misses less.",
      report.figures.threshold);
  figure.table = std::move(table);
  return figure;
}

}  // namespace dtn
