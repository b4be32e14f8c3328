// A panel: the area between two axes, and the drawings on it.
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

// Values of y over x, of equal length. If `low` and `high` are given they bound each value: minimum
// and maximum of several runs, or plus and minus a standard deviation.
struct Series {
  std::string label = {};
  std::vector<double> x = {}, y = {};
  std::vector<double> low = {}, high = {};
  std::size_t style = 0;  // see series_stroke
  double weight = 1;      // line width, relative to the normal one
  bool markers = true;    // false: a thin line, for many points
};

// Returns the points of each run at the x where all runs have a value, in ascending order of x. If
// a run has several values at an x, the last one counts. Drops labels, styles and bands.
std::vector<Series> at_common_x(std::span<const Series> runs);
// Returns the mean of the runs' y at each x where all runs have a value, with a band from the
// minimum to the maximum if there are several runs. A mean over fewer runs would jump where a run
// drops out. Ignores labels, styles and bands of the runs.
Series mean_of(std::span<const Series> runs);
// Returns a line with at most `points` points, each the mean of equally many neighbours. A line
// that becomes shorter loses its band.
Series coarser(const Series& series, std::size_t points);

// Returns the stroke of the series' style, scaled by its weight.
Stroke weighted_stroke(const Series& series, double width = 1.8);

// Maximum number of drawn points of a line. More points look the same but make files large.
inline constexpr std::size_t kMaxPoints = 500;
// Returns at most kMaxPoints of n indices at equal distances, including the last.
std::vector<std::size_t> thinned(std::size_t n);

// Elements around a frame.
struct PanelLook {
  bool x_labels = true, y_labels = true;  // false if a neighbour's labels serve
  std::string title = {};                 // above the frame
  double x_angle = 0;                     // 90: categories are written upwards
};

class Panel {
 public:
  // Draws grid, frame, ticks and labels. `area` is the inside of the frame.
  Panel(Canvas& canvas, const Box& area, const Axis& x, const Axis& y, const PanelLook& look = {});

  const Box& area() const { return area_; }
  // Returns the coordinate of a value; NaN for a value that has no position. Values far outside are
  // clamped to some distance.
  double x(double value) const { return area_.x + near(x_.position(value)) * area_.width; }
  double y(double value) const { return area_.bottom() - near(y_.position(value)) * area_.height; }

  // Draws a line. With markers, draws one at every point, or at some points if all of them would
  // touch. A marker has a tooltip with its values.
  void line(const Series& series) { line(series, series.markers); }
  void line(const Series& series, bool markers);
  // Draws a thin, pale line in the colour of the series, such as values before smoothing.
  void pale_line(const Series& series);
  // Returns the box, the ends of both axes, and 1 for each logarithmic axis, for hover_script().
  std::string frame_text() const;
  // Fills the area between low and high. Call it before drawing lines.
  void band(const Series& series);
  void dots(const Series& series, double size = 6);
  // Draws one bar for each x, from 0 (on a logarithmic axis: from its low end), `width` in units of
  // x, with whiskers if low and high are given.
  void bars(const Series& series, double width);
  // Draws a straight horizontal line at that value.
  void rule(double y_value, const Stroke& stroke);
  // Draws a second scale on the right, with ticks for `factor` times y.
  void right_axis(double factor, const std::string& label);

 private:
  static double near(double position) { return std::clamp(position, -50.0, 50.0); }
  std::vector<Point> points_of(const Series& series) const;
  std::string tooltip(const Series& series, std::size_t i) const;
  void x_axis(const Axis& axis, const PanelLook& look);
  void y_axis(const Axis& axis, const PanelLook& look);

  Canvas& canvas_;
  Box area_;
  Scale x_, y_;
  std::string x_label_;
};

// Returns the space on the left of a frame of that height for y's labels and ticks.
double left_margin(const Axis& y, double height);

enum class Sample { kLine, kLineAndMarker, kBar };

struct LegendEntry {
  std::string label;
  Sample sample = Sample::kLineAndMarker;
  std::size_t style = 0;
  std::optional<Stroke> stroke = {};  // of the line; unset: the stroke of the style
};

// Draws the entries in the given order from left to right, in as many rows as the width requires,
// with the top left corner at `at`. Returns the height. Without a canvas it only returns the
// height.
double draw_legend(Canvas* canvas, Point at, double width, std::span<const LegendEntry> entries);

}  // namespace dtn::plot
