#include "plot/panel.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr double kTick = 4;        // length of a tick
constexpr double kGap = 4;         // between a tick and its label
constexpr double kLabelDrop = 32;  // distance of the x label's baseline below the frame

// Whole numbers have short labels, so more of them fit.
int ticks_across(const Axis& axis, double width) {
  return std::max(3, static_cast<int>(width / (axis.whole ? 40 : 55)));
}
int ticks_up(double height) { return std::max(2, static_cast<int>(height / 36)); }

double widest_label(const Scale& scale) {
  double widest = 0;
  for (const Tick& t : scale.ticks()) widest = std::max(widest, text_width(t.label, kSmallText));
  return widest;
}

void check_lengths(const Series& s) {
  DTN_CHECK(s.x.size() == s.y.size() && s.low.size() == s.high.size() &&
                (s.low.empty() || s.low.size() == s.x.size()),
            "series ", s.label, ": ", s.x.size(), " places, ", s.y.size(), " values, ",
            s.low.size(), " and ", s.high.size(), " bounds");
}

void draw_sample(Canvas& canvas, const Box& box, const LegendEntry& e) {
  const Point middle = {box.x + box.width / 2, box.y + box.height / 2};
  if (e.sample == Sample::kBar) {
    canvas.rect({middle.x - box.height / 2, box.y, box.height, box.height}, series_paint(e.style));
    return;
  }
  canvas.line({box.x, middle.y}, {box.right(), middle.y},
              e.stroke ? *e.stroke : series_stroke(e.style));
  if (e.sample != Sample::kLine) {
    canvas.marker(middle, series_marker(e.style), series_paint(e.style));
  }
}

}  // namespace

std::vector<std::size_t> thinned(std::size_t n) {
  std::vector<std::size_t> kept;
  const std::size_t most = std::min(n, kMaxPoints);
  for (std::size_t i = 0; i < most; ++i) {
    kept.push_back(most < 2 ? 0 : i * (n - 1) / (most - 1));
  }
  return kept;
}

Panel::Panel(Canvas& canvas, const Box& area, const Axis& x, const Axis& y, const PanelLook& look)
    : canvas_(canvas),
      area_(area),
      x_(x, ticks_across(x, area.width)),
      y_(y, ticks_up(area.height)),
      x_label_(x.label) {
  y_axis(y, look);
  x_axis(x, look);
  canvas_.frame(area_, {kSoft, 0.8});
  if (!look.title.empty()) {
    canvas_.text({area_.x + area_.width / 2, area_.y - 7},
                 fitted(look.title, kText * kBoldWidth, area_.width + 12),
                 {kText, Anchor::kMiddle, kInk, true});
  }
}

void Panel::x_axis(const Axis& axis, const PanelLook& look) {
  // If labels would touch, draws every second one, or every third, and so on.
  const std::vector<Tick>& ticks = x_.ticks();
  const double step = area_.width / static_cast<double>(std::max<std::size_t>(ticks.size(), 1));
  const double need = look.x_angle != 0 ? kSmallText + 2 : widest_label(x_) + 6;
  const std::size_t every =
      axis.categories.empty()
          ? 1
          : std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(need / step)));
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = x(ticks[i].value);
    if (axis.categories.empty()) canvas_.line({at, area_.y}, {at, area_.bottom()}, {kGrid, 0.8});
    canvas_.line({at, area_.bottom()}, {at, area_.bottom() + kTick}, {kSoft, 0.8});
    if (!look.x_labels || i % every != 0) continue;
    if (look.x_angle != 0) {
      canvas_.text({at + kSmallText / 3, area_.bottom() + kTick + kGap}, ticks[i].label,
                   {kSmallText, Anchor::kEnd, kSoft, false, true});
    } else {
      canvas_.text({at, area_.bottom() + kTick + kGap + 9}, ticks[i].label,
                   {kSmallText, Anchor::kMiddle, kSoft});
    }
  }
  if (look.x_labels && !axis.label.empty()) {
    canvas_.text({area_.x + area_.width / 2, area_.bottom() + kLabelDrop}, axis.label,
                 {kText, Anchor::kMiddle, kInk});
  }
}

void Panel::y_axis(const Axis& axis, const PanelLook& look) {
  for (const Tick& t : y_.ticks()) {
    const double at = y(t.value);
    canvas_.line({area_.x, at}, {area_.right(), at}, {kGrid, 0.8});
    canvas_.line({area_.x - kTick, at}, {area_.x, at}, {kSoft, 0.8});
    if (look.y_labels) {
      canvas_.text({area_.x - kTick - kGap, at + 4}, t.label, {kSmallText, Anchor::kEnd, kSoft});
    }
  }
  if (look.y_labels && !axis.label.empty()) {
    const double at = area_.x - kTick - kGap - widest_label(y_) - 8;
    canvas_.text({at, area_.y + area_.height / 2}, axis.label,
                 {kText, Anchor::kMiddle, kInk, false, true});
  }
}

Stroke weighted_stroke(const Series& series, double width) {
  return series_stroke(series.style, width * series.weight);
}

double left_margin(const Axis& y, double height) {
  const double ticks = kTick + kGap + widest_label(Scale(y, ticks_up(height)));
  return std::ceil(ticks + (y.label.empty() ? 4 : 8 + kText + 2));
}

void Panel::band(const Series& series) {
  check_lengths(series);
  if (series.low.empty()) return;
  canvas_.open_clip(area_);
  const std::vector<std::size_t> kept = thinned(series.x.size());
  std::vector<Point> up, down;
  auto flush = [&] {
    std::reverse(down.begin(), down.end());
    up.insert(up.end(), down.begin(), down.end());
    if (up.size() > 2) canvas_.polygon(up, series_paint(series.style), 0.18);
    up.clear();
    down.clear();
  };
  for (std::size_t i : kept) {
    const Point high = {x(series.x[i]), y(y_.limited(series.high[i]))};
    const Point low = {high.x, y(y_.limited(series.low[i]))};
    if (std::isfinite(high.x) && std::isfinite(high.y) && std::isfinite(low.y)) {
      up.push_back(high);
      down.push_back(low);
    } else {
      flush();
    }
  }
  flush();
  canvas_.close_clip();
}

std::string Panel::frame_text() const {
  const auto ends = [](const Scale& scale) {
    return format("%.9g %.9g", scale.low(), scale.high());
  };
  return cat(coordinate(area_.x), " ", coordinate(area_.y), " ", coordinate(area_.width), " ",
             coordinate(area_.height), " ", ends(x_), " ", ends(y_), x_.is_log() ? " 1" : " 0",
             y_.is_log() ? " 1" : " 0");
}

std::vector<Point> Panel::points_of(const Series& series) const {
  check_lengths(series);
  std::vector<Point> points;
  for (std::size_t i : thinned(series.x.size())) {
    points.push_back({x(series.x[i]), y(series.y[i])});
  }
  return points;
}

// "DTN, epoch 2: 81.3"
std::string Panel::tooltip(const Series& series, std::size_t i) const {
  return cat(series.label, series.label.empty() ? "" : ", ", x_label_, x_label_.empty() ? "" : " ",
             readable(series.x[i]), ": ", readable(series.y[i]));
}

void Panel::pale_line(const Series& series) {
  canvas_.open_clip(area_);
  canvas_.polyline(points_of(series), series_stroke(series.style, 1), 0.35);
  canvas_.close_clip();
}

void Panel::line(const Series& series, bool markers) {
  const std::vector<Point> points = points_of(series);
  canvas_.open_clip(area_);
  canvas_.polyline(points, weighted_stroke(series, markers ? 1.8 : 1.2));
  canvas_.close_clip();
  if (!markers) return;
  const std::vector<std::size_t> kept = thinned(series.x.size());
  // Places the markers of different series at different points, if there is a choice.
  const std::size_t room = std::max<std::size_t>(1, static_cast<std::size_t>(area_.width / 22));
  const std::size_t every = points.size() <= room ? 1 : std::max<std::size_t>(1, points.size() / 8);
  for (std::size_t i = every > 1 ? (series.style * 3 + 1) * every / 8 % every : 0;
       i < points.size(); i += every) {
    if (points[i].y < area_.y - 1 || points[i].y > area_.bottom() + 1) continue;
    canvas_.marker(points[i], series_marker(series.style), series_paint(series.style), 7,
                   tooltip(series, kept[i]));
  }
}

void Panel::dots(const Series& series, double size) {
  check_lengths(series);
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const Point at = {x(series.x[i]), y(series.y[i])};
    if (at.x < area_.x - 1 || at.x > area_.right() + 1 || at.y < area_.y - 1 ||
        at.y > area_.bottom() + 1) {
      continue;
    }
    canvas_.marker(at, series_marker(series.style), series_paint(series.style), size);
  }
}

void Panel::bars(const Series& series, double width) {
  check_lengths(series);
  canvas_.open_clip(area_);
  const double zero = y(0), base = std::isfinite(zero) ? zero : area_.bottom();
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const double left = x(series.x[i] - width / 2), right = x(series.x[i] + width / 2);
    const double top = y(series.y[i]);
    if (!std::isfinite(left) || !std::isfinite(right) || !std::isfinite(top)) continue;
    canvas_.rect({left, std::min(top, base), right - left, std::abs(top - base)},
                 series_paint(series.style), 1,
                 cat(series.label, series.label.empty() ? "" : ": ", readable(series.y[i])));
    if (series.low.empty()) continue;
    const double high = y(y_.limited(series.high[i])), low = y(y_.limited(series.low[i]));
    if (!std::isfinite(high) || !std::isfinite(low) || high == low) continue;
    const double middle = (left + right) / 2, cap = std::min(4.0, (right - left) / 3);
    canvas_.line({middle, low}, {middle, high}, {kInk, 1.2});
    canvas_.line({middle - cap, low}, {middle + cap, low}, {kInk, 1.2});
    canvas_.line({middle - cap, high}, {middle + cap, high}, {kInk, 1.2});
  }
  canvas_.close_clip();
}

void Panel::rule(double y_value, const Stroke& stroke) {
  const double at = y(y_value);
  if (!std::isfinite(at) || at < area_.y || at > area_.bottom()) return;
  canvas_.line({area_.x, at}, {area_.right(), at}, stroke);
}

void Panel::right_axis(double factor, const std::string& label) {
  Axis axis;
  axis.data = {y_.low() * factor, y_.high() * factor};
  axis.round = false;
  const Scale scale(axis, ticks_up(area_.height));
  for (const Tick& t : scale.ticks()) {
    const double at = area_.bottom() - scale.position(t.value) * area_.height;
    canvas_.line({area_.right(), at}, {area_.right() + kTick, at}, {kSoft, 0.8});
    canvas_.text({area_.right() + kTick + kGap, at + 4}, t.label,
                 {kSmallText, Anchor::kStart, kSoft});
  }
  const double at = area_.right() + kTick + kGap + widest_label(scale) + 4 + kText * 0.8;
  canvas_.text({at, area_.y + area_.height / 2}, label,
               {kText, Anchor::kMiddle, kInk, false, true});
}

double draw_legend(Canvas* canvas, Point at, double width, std::span<const LegendEntry> entries) {
  constexpr double kRow = 18, kBetween = 18;
  double x = at.x, y = at.y;
  for (const LegendEntry& e : entries) {
    const double sample = e.sample == Sample::kBar ? 14 : 26;
    const std::string label = fitted(e.label, kText, width - sample - 6);
    const double used = sample + 6 + text_width(label, kText);
    if (x > at.x && x + used > at.x + width) {
      x = at.x;
      y += kRow;
    }
    if (canvas) {
      draw_sample(*canvas, {x, y + 2, sample, kRow - 4}, e);
      canvas->text({x + sample + 6, y + kRow / 2 + 4}, label);
    }
    x += used + kBetween;
  }
  return entries.empty() ? 0 : y + kRow - at.y;
}

std::vector<Series> at_common_x(std::span<const Series> runs) {
  std::vector<std::map<double, double>> values;
  for (const Series& run : runs) {
    std::map<double, double>& at = values.emplace_back();
    for (std::size_t i = 0; i < run.x.size(); ++i) {
      if (std::isfinite(run.x[i]) && std::isfinite(run.y[i])) at[run.x[i]] = run.y[i];
    }
  }
  std::vector<Series> out(runs.size());
  if (runs.empty()) return out;
  for (const auto& point : values.front()) {
    const double x = point.first;
    if (!std::ranges::all_of(values, [&](const auto& at) { return at.contains(x); })) continue;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      out[r].x.push_back(x);
      out[r].y.push_back(values[r].at(x));
    }
  }
  return out;
}

Series mean_of(std::span<const Series> runs) {
  const std::vector<Series> joined = at_common_x(runs);
  Series out;
  if (joined.empty()) return out;
  out.x = joined.front().x;
  for (std::size_t i = 0; i < out.x.size(); ++i) {
    std::vector<double> values;
    for (const Series& run : joined) values.push_back(run.y[i]);
    out.y.push_back(std::accumulate(values.begin(), values.end(), 0.0) /
                    static_cast<double>(values.size()));
    if (values.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(values);
    out.low.push_back(least);
    out.high.push_back(most);
  }
  return out;
}

Series coarser(const Series& series, std::size_t points) {
  const std::size_t n = series.x.size(), each = (n + points - 1) / points;
  if (each < 2) return series;
  Series out = series;
  out.x.clear();
  out.y.clear();
  out.low.clear();
  out.high.clear();
  for (std::size_t first = 0; first < n; first += each) {
    const std::size_t last = std::min(n, first + each);
    const auto mean = [&](const std::vector<double>& v) {
      return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(first),
                             v.begin() + static_cast<std::ptrdiff_t>(last), 0.0) /
             static_cast<double>(last - first);
    };
    out.x.push_back(mean(series.x));
    out.y.push_back(mean(series.y));
  }
  return out;
}

}  // namespace dtn::plot
