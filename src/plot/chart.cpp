#include "plot/chart.h"

#include <algorithm>
#include <numeric>

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr double kSide = 16;  // margin on the right and at the bottom

void take_in_values(Axis& axis, const Series& s) {
  axis.data.take_in(s.y);
  for (const std::vector<double>* bound : {&s.low, &s.high}) {
    for (double v : *bound) {
      if (!axis.limit.empty()) v = std::clamp(v, axis.limit.low, axis.limit.high);
      axis.data.take_in(v);
    }
  }
}

std::vector<LegendEntry> legend_of(const Chart& chart, Sample sample) {
  std::vector<LegendEntry> entries;
  if (chart.series.size() == 1 && chart.series[0].label.empty()) return entries;
  for (const Series& s : chart.series)
    entries.push_back({s.label, sample, s.style, weighted_stroke(s)});
  return entries;
}

// Draws the title and the legend, and returns the space that is left for the frame.
Box draw_head(Canvas& canvas, const Chart& chart, const std::vector<LegendEntry>& legend,
              double below) {
  const double inside = chart.width - 2 * kSide;
  double top = 12;
  if (!chart.title.empty()) {
    canvas.text({kSide, top + 12}, fitted(chart.title, kTitleText, inside),
                {kTitleText, Anchor::kStart, kInk, true});
    top += 22;
  }
  if (!chart.subtitle.empty()) {
    canvas.text({kSide, top + 10}, fitted(chart.subtitle, kSmallText, inside),
                {kSmallText, Anchor::kStart, kSoft});
    top += 18;
  }
  top += draw_legend(&canvas, {kSide, top}, inside, legend) + 12;
  const double left = kSide / 2 + left_margin(chart.y, chart.height - top - below);
  return {left, top, chart.width - kSide - left, chart.height - top - below};
}

}  // namespace

std::string draw_chart(Chart chart, std::string_view description) {
  for (const Series& s : chart.series) {
    chart.x.data.take_in(s.x);
    take_in_values(chart.y, s);
  }
  Canvas canvas(chart.width, chart.height);
  const Box area = draw_head(
      canvas, chart, legend_of(chart, chart.dots ? Sample::kMarker : Sample::kLineAndMarker), 44);
  Panel panel(canvas, area, chart.x, chart.y);
  for (const Series& s : chart.series) panel.band(s);
  for (const Series& s : chart.series) {
    if (chart.dots) {
      panel.dots(s);
    } else {
      panel.line(s);
    }
  }
  return canvas.svg(description);
}

std::string draw_bars(Chart chart, std::string_view description) {
  const std::size_t groups = chart.x.categories.size();
  chart.y.data.take_in(chart.y.log ? kMissing : 0.0);
  double longest = 0;
  for (const std::string& c : chart.x.categories) {
    longest = std::max(longest, text_width(c, kSmallText));
  }
  for (Series& s : chart.series) {
    DTN_CHECK(s.y.size() == groups, "series ", s.label, ": ", s.y.size(), " bars in ", groups,
              " groups");
    take_in_values(chart.y, s);
  }
  const double room = (chart.width - 90) / static_cast<double>(std::max<std::size_t>(groups, 1));
  const bool upwards = longest + 6 > room;
  if (upwards) longest = std::min(longest, chart.height / 3);
  Canvas canvas(chart.width, chart.height);
  const double below = upwards ? longest + 18 : 44;
  const Box area = draw_head(canvas, chart, legend_of(chart, Sample::kBar), below);
  PanelLook look;
  if (upwards) {
    look.x_angle = 90;
    for (std::string& c : chart.x.categories) c = fitted(c, kSmallText, longest);
    chart.x.label.clear();  // the upright categories take its place
  }
  Panel panel(canvas, area, chart.x, chart.y, look);
  const double n = static_cast<double>(std::max<std::size_t>(chart.series.size(), 1));
  const double width = std::min(0.8 / n, 0.5);
  for (std::size_t k = 0; k < chart.series.size(); ++k) {
    Series s = chart.series[k];
    s.x.resize(groups);
    std::iota(s.x.begin(), s.x.end(), (static_cast<double>(k) - (n - 1) / 2) * width);
    panel.bars(s, width * 0.92);
  }
  return canvas.svg(description);
}

}  // namespace dtn::plot
