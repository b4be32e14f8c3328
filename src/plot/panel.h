// A field between two axes, and what is drawn on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plot/axis.h"
#include "plot/canvas.h"

namespace dtn::plot {

// Values of y over x, of one length. Where `low` and `high` are given they bound each value: the
// least and the largest of several runs, or a standard deviation either way.
struct Series {
  std::string label = {};
  std::vector<double> x = {}, y = {};
  std::vector<double> low = {}, high = {};
  std::size_t style = 0;  // see series_stroke
  double weight = 1;      // of the line: thicker than 1 stands out
};

// That of the series' style, as thick as its weight asks for.
Stroke weighted_stroke(const Series& series, double width = 1.8);

// At most this many points of a line are drawn: more cannot be told apart, but make files large.
inline constexpr std::size_t kMostPoints = 500;

// What stands about a frame.
struct PanelLook {
  bool x_labels = true, y_labels = true;  // off where a neighbour's serve
  std::string title = {};                 // above the frame
  double x_angle = 0;                     // 90: categories are written upwards
};

class Panel {
 public:
  // Draws grid, frame, ticks and labels about `area`, which is what lies within the frame.
  Panel(Canvas& canvas, const Box& area, const Axis& x, const Axis& y, const PanelLook& look = {});

  const Box& area() const { return area_; }
  // Where values lie; NaN for what has no place. What is far outside is held at some distance.
  double x(double value) const { return area_.x + near(x_.position(value)) * area_.width; }
  double y(double value) const { return area_.bottom() - near(y_.position(value)) * area_.height; }

  // A line with a marker at every point, or at some where they would touch; or with none.
  void line(const Series& series, bool markers = true);
  // The field between low and high, to be drawn before any line.
  void band(const Series& series);
  void dots(const Series& series, double size = 6);
  // One bar for each x, from 0 (on a logarithmic axis: from its low end), `width` in units of x,
  // with whiskers where there are low and high.
  void bars(const Series& series, double width);
  // A straight line across at that value.
  void rule(double y_value, const Stroke& stroke);
  // A second scale on the right: ticks of what is `factor` times y.
  void right_axis(double factor, const std::string& label);

 private:
  static double near(double position) { return std::clamp(position, -50.0, 50.0); }
  void x_axis(const Axis& axis, const PanelLook& look);
  void y_axis(const Axis& axis, const PanelLook& look);

  Canvas& canvas_;
  Box area_;
  Scale x_, y_;
};

// What y labels and ticks need on the left of a frame of that height.
double left_margin(const Axis& y, double height);

enum class Sample { kLine, kMarker, kLineAndMarker, kBar };

struct LegendEntry {
  std::string label;
  Sample sample = Sample::kLineAndMarker;
  std::size_t style = 0;
  std::optional<Stroke> stroke = {};  // of the line, where it is not that of the style
};

// Entries in the given order from left to right, in as many rows as the width asks for. Draws with
// the top left corner at `at`; returns the height. Without a canvas only the latter.
double draw_legend(Canvas* canvas, Point at, double width, std::span<const LegendEntry> entries);

}  // namespace dtn::plot
