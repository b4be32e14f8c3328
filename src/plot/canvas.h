// A drawing as SVG text. Lengths are CSS pixels (96 per inch); y grows downwards. The text depends
// only on the calls: the same calls give the same bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "plot/color.h"

namespace dtn::plot {

inline constexpr double kSmallText = 11;  // 8.25 pt, the smallest text
inline constexpr double kText = 12;
inline constexpr double kTitleText = 14;

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Stroke {
  Paint paint = kInk;
  double width = 1;
  std::string dashes = {};  // SVG's stroke-dasharray, such as "4 3"; empty: a solid line
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = kText;
  Anchor anchor = Anchor::kStart;
  Paint paint = kInk;
  bool bold = false;
  bool upwards = false;  // rotated, reads from bottom to top
};

enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kWedge, kCross, kStar };
inline constexpr std::size_t kMarkers = 7;

// Appearance of the series with that index: its paint, and a marker and dashes for readers who
// cannot see colours. It depends on the index alone. The paints repeat after seven series, with
// other markers and dashes: no two of the first 49 series share paint and marker, and no two series
// at all share paint and dashes.
Stroke series_stroke(std::size_t index, double width = 1.8);
Marker series_marker(std::size_t index);

class Canvas {
 public:
  Canvas(double width, double height) : width_(width), height_(height) {}

  void line(Point from, Point to, const Stroke& stroke);
  // Breaks the line at points that are not finite. Draws a point between two breaks as a dot.
  void polyline(std::span<const Point> points, const Stroke& stroke, double opacity = 1);
  void polygon(std::span<const Point> points, Paint fill, double opacity = 1);
  // Browsers show the tooltip; empty: none.
  void rect(const Box& box, Paint fill, double opacity = 1, std::string_view tooltip = {});
  void frame(const Box& box, const Stroke& stroke);
  // Draws an outline in the paper colour, so that overlapping markers stay apart.
  void marker(Point at, Marker kind, Paint paint, double size = 7, std::string_view tooltip = {});
  // Draws a line with a head at `to`.
  void arrow(Point from, Point to, const Stroke& stroke);
  // `at` is the point on the baseline that the anchor names.
  void text(Point at, std::string_view text, const TextStyle& style = {});
  // Draws many small round dots, without those that are not finite. Overlapping dots are darker.
  void cloud(std::span<const Point> points, Paint paint, double size, double opacity = 1);
  // Draws a PNG file, stretched to the box without smoothing.
  void image(const Box& box, std::string_view png, double opacity = 1);

  // Clips all drawing between open_clip() and close_clip() to the box.
  void open_clip(const Box& box);
  void close_clip();

  // Returns the whole picture, one <svg> element. `description` is for screen readers. `frame` is
  // that of its only panel, see Panel::frame_text(); empty: none.
  std::string svg(std::string_view description, std::string_view frame = {}) const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace dtn::plot
