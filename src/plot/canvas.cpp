#include "plot/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

// Sets the paint by attributes, because any class rule of a page's style sheet overrides them.
std::string fill_of(const Paint& paint, double opacity = 1) {
  return cat(" class=\"f-", paint.name, "\" fill=\"", hex(paint.light), "\"",
             opacity < 1 ? cat(" fill-opacity=\"", coordinate(opacity), "\"") : std::string());
}

std::string stroke_of(const Stroke& stroke) {
  std::string out = cat(" class=\"k-", stroke.paint.name, "\" stroke=\"", hex(stroke.paint.light),
                        "\" stroke-width=\"", coordinate(stroke.width), "\" fill=\"none\"");
  if (!stroke.dashes.empty()) out += cat(" stroke-dasharray=\"", stroke.dashes, "\"");
  return out;
}

std::string pair(Point p) { return coordinate(p.x) + "," + coordinate(p.y); }

std::string place(const Box& box) {
  return cat(" x=\"", coordinate(box.x), "\" y=\"", coordinate(box.y), "\" width=\"",
             coordinate(box.width), "\" height=\"", coordinate(box.height), "\"");
}

// Ends an element, with a tooltip if there is one.
std::string end_of(const char* element, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return cat("><title>", escaped(tooltip), "</title></", element, ">\n");
}

bool finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }

std::string points_text(std::span<const Point> points) {
  std::string out;
  for (Point p : points) out += (out.empty() ? "" : " ") + pair(p);
  return out;
}

// Returns the corners of a marker of size 2 about the origin.
std::vector<Point> corners(Marker kind) {
  switch (kind) {
    case Marker::kSquare: return {{-.88, -.88}, {.88, -.88}, {.88, .88}, {-.88, .88}};
    case Marker::kTriangle: return {{0, -1.1}, {1.05, .8}, {-1.05, .8}};
    case Marker::kDiamond: return {{0, -1.2}, {1.2, 0}, {0, 1.2}, {-1.2, 0}};
    case Marker::kWedge: return {{0, 1.1}, {1.05, -.8}, {-1.05, -.8}};
    case Marker::kCross:
      return {{-.4, -1.1}, {.4, -1.1}, {.4, -.4}, {1.1, -.4}, {1.1, .4},   {.4, .4},
              {.4, 1.1},   {-.4, 1.1}, {-.4, .4}, {-1.1, .4}, {-1.1, -.4}, {-.4, -.4}};
    default: break;
  }
  std::vector<Point> star;
  for (int i = 0; i < 10; ++i) {
    const double radius = i % 2 ? 0.55 : 1.3, angle = i * 0.62831853071795865;
    star.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
  }
  return star;
}

}  // namespace

Stroke series_stroke(std::size_t index, double width) {
  constexpr std::array kDashes = {"", "6 3", "2 2.5"};
  const std::size_t round = index / kSeriesPaints;
  if (round < kDashes.size()) return {series_paint(index), width, kDashes[round]};
  std::string dashes = "8 3";  // then one dot more in each round
  for (std::size_t i = kDashes.size(); i <= round; ++i) dashes += " 2 3";
  return {series_paint(index), width, dashes};
}

// Shifts the markers by one in each round of paints, so that equal paints have different markers.
Marker series_marker(std::size_t index) {
  return static_cast<Marker>((index + index / kSeriesPaints) % kMarkers);
}

void Canvas::line(Point from, Point to, const Stroke& stroke) {
  body_ += cat("<path d=\"M", pair(from), "L", pair(to), "\"", stroke_of(stroke), "/>\n");
}

void Canvas::polyline(std::span<const Point> points, const Stroke& stroke, double opacity) {
  std::string path;
  bool pen_down = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!finite(points[i])) {
      pen_down = false;
      continue;
    }
    path += (pen_down ? "L" : "M") + pair(points[i]);
    const bool alone = !pen_down && (i + 1 == points.size() || !finite(points[i + 1]));
    if (alone) path += "h0";
    pen_down = true;
  }
  if (path.empty()) return;
  body_ += cat("<path d=\"", path, "\" stroke-linejoin=\"round\" stroke-linecap=\"round\"",
               stroke_of(stroke),
               opacity < 1 ? cat(" stroke-opacity=\"", coordinate(opacity), "\"") : "", "/>\n");
}

void Canvas::polygon(std::span<const Point> points, Paint fill, double opacity) {
  body_ += cat("<polygon points=\"", points_text(points), "\"", fill_of(fill, opacity), "/>\n");
}

void Canvas::rect(const Box& box, Paint fill, double opacity, std::string_view tooltip) {
  body_ += cat("<rect", place(box), fill_of(fill, opacity), end_of("rect", tooltip));
}

void Canvas::frame(const Box& box, const Stroke& stroke) {
  body_ += cat("<rect", place(box), stroke_of(stroke), "/>\n");
}

void Canvas::marker(Point at, Marker kind, Paint paint, double size, std::string_view tooltip) {
  if (!finite(at)) return;
  const std::string look = cat(" class=\"f-", paint.name, " k-paper\" fill=\"", hex(paint.light),
                               "\" stroke=\"", hex(kPaper.light), "\" stroke-width=\"0.6\"");
  if (kind == Marker::kCircle) {
    body_ += cat("<circle cx=\"", coordinate(at.x), "\" cy=\"", coordinate(at.y), "\" r=\"",
                 coordinate(size / 2), "\"", look, end_of("circle", tooltip));
    return;
  }
  std::vector<Point> shape = corners(kind);
  for (Point& p : shape) p = {at.x + p.x * size / 2, at.y + p.y * size / 2};
  body_ += cat("<polygon points=\"", points_text(shape), "\"", look, end_of("polygon", tooltip));
}

void Canvas::arrow(Point from, Point to, const Stroke& stroke) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  if (length < 1e-6) return;
  const Point along = {(to.x - from.x) / length, (to.y - from.y) / length};
  const double head = std::min(length, 2 + 2.2 * stroke.width);
  const Point base = {to.x - head * along.x, to.y - head * along.y};
  line(from, base, stroke);
  const Point side = {-along.y * head * 0.5, along.x * head * 0.5};
  polygon(std::array{to, Point{base.x + side.x, base.y + side.y},
                     Point{base.x - side.x, base.y - side.y}},
          stroke.paint);
}

void Canvas::text(Point at, std::string_view text, const TextStyle& style) {
  constexpr std::array kAnchors = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  body_ += cat("<text x=\"", coordinate(at.x), "\" y=\"", coordinate(at.y), "\" font-size=\"",
               coordinate(style.size), "\"", kAnchors[static_cast<std::size_t>(style.anchor)]);
  if (style.bold) body_ += " font-weight=\"bold\"";
  if (style.upwards) body_ += cat(" transform=\"rotate(-90 ", pair(at), ")\"");
  body_ += cat(fill_of(style.paint), ">", escaped(text), "</text>\n");
}

void Canvas::cloud(std::span<const Point> points, Paint paint, double size, double opacity) {
  constexpr std::size_t kTogether = 24;  // dots per element; they do not darken each other
  const std::string look = cat("\" stroke-linecap=\"round\"", stroke_of({paint, size}),
                               " stroke-opacity=\"", coordinate(opacity), "\"/>\n");
  for (std::size_t first = 0; first < points.size(); first += kTogether) {
    std::string path;
    for (Point p : points.subspan(first, std::min(kTogether, points.size() - first))) {
      if (finite(p)) path += "M" + pair(p) + "h0";
    }
    if (!path.empty()) body_ += cat("<path d=\"", path, look);
  }
}

void Canvas::image(const Box& box, std::string_view png, double opacity) {
  const std::string seen = opacity < 1 ? cat(" opacity=\"", coordinate(opacity), "\"") : "";
  body_ += cat("<image", place(box), seen,
               " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
               "href=\"data:image/png;base64,",
               base64(png), "\"/>\n");
}

// Opens a nested <svg>, which clips its content. Unlike a clip path it needs no name, and names
// would have to be unique in a page with many pictures.
void Canvas::open_clip(const Box& box) {
  body_ += cat("<svg", place(box), " viewBox=\"", coordinate(box.x), " ", coordinate(box.y), " ",
               coordinate(box.width), " ", coordinate(box.height), "\">\n");
}

void Canvas::close_clip() { body_ += "</svg>\n"; }

std::string Canvas::svg(std::string_view description, std::string_view frame) const {
  const std::string width = coordinate(width_), height = coordinate(height_);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
             "\" viewBox=\"0 0 ", width, " ", height, "\" role=\"img\" aria-label=\"",
             escaped(description), frame.empty() ? "" : cat("\" data-frame=\"", frame),
             "\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n<rect width=\"", width,
             "\" height=\"", height, "\"", fill_of(kPaper), "/>\n", body_, "</svg>\n");
}

}  // namespace dtn::plot
