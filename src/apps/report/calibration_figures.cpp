#include <algorithm>

#include "apps/report/analysis/figure_parts.h"
#include "apps/report/class_report_figures.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/chart_figure.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr double kBinWidth = 100.0 / double{kCalibrationBins};
constexpr std::size_t kCountStyle = 4;  // of the bars that count samples

plot::Series bars_of(const ClassificationFigures& figures, bool counts) {
  plot::Series bars{.style = counts ? kCountStyle : 0};
  for (const CalibrationBin& bin : figures.reliability) {
    bars.x.push_back(50 * (bin.from + bin.to));
    const double share = static_cast<double>(bin.count) /
                         static_cast<double>(std::max<std::int64_t>(figures.count, 1));
    const double value = counts ? share : bin.accuracy;
    bars.y.push_back(bin.count > 0 ? 100 * value : plot::kMissing);
  }
  return bars;
}

std::string draw_reliability(const ClassReport& report, double width, const std::string& title,
                             const std::string& description) {
  const ClassificationFigures& figures = report.figures;
  const plot::Stroke diagonal = {plot::kInk, 1.4, "5 4"};
  const std::vector<plot::LegendEntry> legend = {
      {"accuracy of the bin", plot::Sample::kBar, 0, {}},
      {"perfect calibration", plot::Sample::kLine, 0, diagonal},
      {cat("share of the ", report.noun), plot::Sample::kBar, kCountStyle, {}}};
  const double inside = width - 2 * kFigureSide;
  const double top = 40 + plot::draw_legend(nullptr, {}, inside, legend) + 14;
  const plot::Axis accuracy = {.label = "accuracy (%)", .data = plot::kPercent, .round = false};
  plot::Axis share = {.label = "share (%)", .limit = plot::kPercent};
  const plot::Series counts = bars_of(figures, true);
  share.data.take_in(0.0);
  share.data.take_in(counts.y);
  const plot::Axis probability = {
      .label = "probability of the prediction (%)", .data = plot::kPercent, .round = false};
  const double left =
      kFigureSide / 2 + std::max(plot::left_margin(accuracy, 240), plot::left_margin(share, 80));
  const plot::Box upper = {left, top, width - kFigureSide - left, 240};
  const plot::Box lower = {left, upper.bottom() + 18, upper.width, 80};
  plot::Canvas canvas(width, lower.bottom() + 48);
  canvas.text({kFigureSide, 26}, title, {plot::kTitleText, plot::Anchor::kStart, plot::kInk, true});
  plot::draw_legend(&canvas, {kFigureSide, 40}, inside, legend);
  plot::Axis unlabelled = probability;
  unlabelled.label.clear();
  plot::Panel panel(canvas, upper, unlabelled, accuracy, {.x_labels = false});
  panel.bars(bars_of(figures, false), 0.94 * kBinWidth);
  canvas.line({panel.x(0), panel.y(0)}, {panel.x(100), panel.y(100)}, diagonal);
  plot::Panel count_panel(canvas, lower, probability, share);
  count_panel.bars(counts, 0.94 * kBinWidth);
  return canvas.svg(description);
}

plot::Table reliability_table(const ClassReport& report) {
  plot::Table table{{"probability (%)", report.noun, "mean probability (%)", "accuracy (%)"}, {}};
  for (const CalibrationBin& bin : report.figures.reliability) {
    const bool any = bin.count > 0;
    table.rows.push_back({format("%.1f to %.1f", 100 * bin.from, 100 * bin.to), cat(bin.count),
                          any ? format("%.1f", 100 * bin.confidence) : "-",
                          any ? format("%.1f", 100 * bin.accuracy) : "-"});
  }
  return table;
}

}  // namespace

plot::Figure reliability_figure(const ClassReport& report) {
  const std::string title =
      format("Reliability: calibration error %.1f %%", 100 * report.figures.ece);
  const std::string description =
      cat("accuracy over the probability of the prediction in ", kCalibrationBins, " bins");
  return {
      .name = "reliability",
      .title = "Reliability of the probabilities",
      .caption = cat(
          "Bars below the dashed line: the model is surer than it should be. Bars above it: the "
          "model is right more often than it says. The calibration error (ECE) is the mean "
          "distance of accuracy and probability over the bins, weighted by the number of ",
          report.noun, "."),
      .description = description,
      .svg = draw_reliability(report, plot::kCellWidth, title, description),
      .table = reliability_table(report),
      .phone_svg = draw_reliability(report, plot::kPhoneWidth, title, description),
      .cell = true};
}

plot::Figure top_k_figure(const ClassReport& report) {
  plot::Series line;
  plot::Table table{{"k", "top-k accuracy (%)"}, {}};
  for (std::size_t k = 0; k < report.figures.top_k.size(); ++k) {
    line.x.push_back(static_cast<double>(k + 1));
    line.y.push_back(100 * report.figures.top_k[k]);
    table.rows.push_back({cat(k + 1), format("%.2f", line.y.back())});
  }
  plot::Chart chart{.title = "Top-k accuracy"};
  chart.x = {.label = "k", .round = false, .whole = true};
  chart.y = {.label = "accuracy (%)", .limit = plot::kPercent};
  chart.series = {line};
  plot::Figure figure = plot::chart_figure("top_k", chart, "accuracy over k");
  figure.caption =
      cat("Share of the ", report.noun,
          " whose truth is among the k most probable classes. A steep rise from 1 to 2 means that "
          "the model hesitates between two classes.");
  figure.table = table;
  return figure;
}

}  // namespace dtn
