#include "plot/chart.h"

#include <algorithm>
#include <numeric>

#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr double kSide = 16;          // margin on the right and at the bottom
constexpr double kBelow = 44;         // height of the ticks and the label of x
constexpr double kNote = 20;          // height of a line of text below
constexpr double kLegendHeight = 54;  // part of the height that is meant for the legend: three rows

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
  for (const Series& s : chart.series) {
    if (s.label.empty()) continue;
    const bool line = sample == Sample::kLineAndMarker && !s.markers;
    entries.push_back({s.label, line ? Sample::kLine : sample, s.style, weighted_stroke(s)});
  }
  return entries;
}

// Title, subtitle and legend, above the frame.
class Head {
 public:
  Head(const Chart& chart, Sample sample)
      : inside_(chart.width - 2 * kSide),
        title_(lines_of(chart.title, kTitleText * kBoldWidth)),
        subtitle_(lines_of(chart.subtitle, kSmallText)),
        legend_(legend_of(chart, sample)) {}

  // Returns the height that this head needs above that of one line each and kLegendHeight.
  double extra_height() const {
    const double lines = kTitleRow * extra(title_) + kSubtitleRow * extra(subtitle_);
    return lines + std::max(0.0, draw_legend(nullptr, {}, inside_, legend_) - kLegendHeight);
  }

  // Returns the space that is left for the frame.
  Box draw(Canvas& canvas, const Chart& chart, double below) const {
    double top = 12;
    for (const std::string& line : title_) {
      canvas.text({kSide, top + 12}, line, {kTitleText, Anchor::kStart, kInk, true});
      top += kTitleRow;
    }
    for (const std::string& line : subtitle_) {
      canvas.text({kSide, top + 10}, line, {kSmallText, Anchor::kStart, kSoft});
      top += kSubtitleRow;
    }
    top += draw_legend(&canvas, {kSide, top}, inside_, legend_) + 12;
    const double left = kSide / 2 + left_margin(chart.y, chart.height - top - below);
    return {left, top, chart.width - kSide - left, chart.height - top - below};
  }

 private:
  static constexpr double kTitleRow = 22, kSubtitleRow = 18;

  std::vector<std::string> lines_of(const std::string& text, double size) const {
    return text.empty() ? std::vector<std::string>() : wrapped(text, size, inside_, 2);
  }
  static double extra(const std::vector<std::string>& lines) { return lines.size() > 1 ? 1 : 0; }

  double inside_;
  std::vector<std::string> title_, subtitle_;
  std::vector<LegendEntry> legend_;
};

void draw_rule(Canvas& canvas, Panel& panel, const RuledValue& rule) {
  const Box& area = panel.area();
  panel.rule(rule.y, {kSoft, 1, "1.5 3"});
  const double at = panel.y(rule.y), above = at - 5, below = at + kSmallText + 3;
  const double baseline = above - kSmallText < area.y ? below : above;
  canvas.text({area.right() - 6, baseline}, fitted(rule.label, kSmallText, area.width - 12),
              {kSmallText, Anchor::kEnd, kSoft});
}

}  // namespace

std::string draw_chart(Chart chart, std::string_view description) {
  for (const RuledValue& rule : chart.rules) chart.y.data.take_in(rule.y);
  for (const std::vector<Series>* all : {&chart.series, &chart.raw}) {
    for (const Series& s : *all) {
      chart.x.data.take_in(s.x);
      take_in_values(chart.y, s);
    }
  }
  const Head head(chart, Sample::kLineAndMarker);
  const bool crowded = chart.series.size() > kMaxDistinctSeries;
  chart.height += head.extra_height() + (crowded ? kNote : 0);
  Canvas canvas(chart.width, chart.height);
  if (crowded) {
    canvas.text({kSide, chart.height - 10},
                cat(chart.series.size(), " lines are hard to tell apart; see the table."),
                {kSmallText, Anchor::kStart, kSoft});
  }
  const Box area = head.draw(canvas, chart, kBelow + (crowded ? kNote : 0));
  Panel panel(canvas, area, chart.x, chart.y);
  for (const RuledValue& rule : chart.rules) draw_rule(canvas, panel, rule);
  for (const Series& s : chart.series) panel.band(s);
  for (const Series& s : chart.raw) panel.pale_line(s);
  for (const Series& s : chart.series) panel.line(s);
  return canvas.svg(description, panel.frame_text());
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
  const Head head(chart, Sample::kBar);
  chart.height += head.extra_height();
  const double room = (chart.width - 90) / static_cast<double>(std::max<std::size_t>(groups, 1));
  const bool upwards = longest + 6 > room;
  if (upwards) longest = std::min(longest, chart.height * 0.4);
  Canvas canvas(chart.width, chart.height);
  const double below = upwards ? longest + 18 : kBelow;
  const Box area = head.draw(canvas, chart, below);
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
