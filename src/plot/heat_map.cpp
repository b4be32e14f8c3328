#include "plot/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "dtn/core/check.h"
#include "io/image/image_encode.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr double kPixels = 2;  // pixels of a sheet per pixel of the canvas, for fine screens
constexpr int kShades = 255;   // in addition to index 0, which is transparent

std::array<std::array<std::uint8_t, 3>, kShades + 1> palette_of(ColorMap map) {
  std::array<std::array<std::uint8_t, 3>, kShades + 1> out{};
  for (int i = 0; i < kShades; ++i) {
    const double t = static_cast<double>(i) / (kShades - 1);
    const Rgb c = map == ColorMap::kViridis ? viridis(t) : blue_white_red(t);
    out[static_cast<std::size_t>(i) + 1] = {c.r, c.g, c.b};
  }
  return out;
}

std::uint8_t shade(double position) {
  if (!std::isfinite(position)) return 0;
  return static_cast<std::uint8_t>(1 + std::lround(std::clamp(position, 0.0, 1.0) * (kShades - 1)));
}

}  // namespace

double ColorScale::position(double value) const {
  if (!std::isfinite(value) || range.empty()) return kMissing;
  const double width = range.high - range.low;
  const double share = width > 0 ? (value - range.low) / width : 0.5;
  return square_root ? std::sqrt(std::max(share, 0.0)) : share;
}

Rgb ColorScale::color(double value) const {
  const double t = position(value);
  return map == ColorMap::kViridis ? viridis(t) : blue_white_red(t);
}

void HeatSheet::add(const Box& box, std::span<const double> values, std::int64_t rows,
                    std::int64_t columns, const ColorScale& scale) {
  DTN_CHECK(rows > 0 && columns > 0 && values.size() == static_cast<std::size_t>(rows * columns),
            values.size(), " values for a map of ", rows, " x ", columns);
  DTN_CHECK(scale.map == map_, "a scale of another colour map");
  Map map{box, {}, rows, columns};
  for (double v : values) map.cells.push_back(shade(scale.position(v)));
  maps_.push_back(std::move(map));
}

void HeatSheet::draw(Canvas& canvas, double opacity) const {
  if (maps_.empty()) return;
  Range across, down;
  for (const Map& m : maps_) {
    across.take_in(std::array{m.box.x, m.box.right()});
    down.take_in(std::array{m.box.y, m.box.bottom()});
  }
  const Box all = {across.low, down.low, across.high - across.low, down.high - down.low};
  const int width = static_cast<int>(std::lround(all.width * kPixels));
  const int height = static_cast<int>(std::lround(all.height * kPixels));
  std::vector<std::uint8_t> sheet(static_cast<std::size_t>(width) * height, 0);
  for (const Map& m : maps_) {
    const auto pixel = [](double at, double origin) {
      return static_cast<std::int64_t>(std::lround((at - origin) * kPixels));
    };
    const std::int64_t left = pixel(m.box.x, all.x), right = pixel(m.box.right(), all.x);
    const std::int64_t top = pixel(m.box.y, all.y), bottom = pixel(m.box.bottom(), all.y);
    for (std::int64_t y = top; y < bottom; ++y) {
      const std::uint8_t* row = &m.cells[(y - top) * m.rows / (bottom - top) * m.columns];
      for (std::int64_t x = left; x < right; ++x) {
        sheet[static_cast<std::size_t>(y * width + x)] =
            row[(x - left) * m.columns / (right - left)];
      }
    }
  }
  std::vector<std::byte> png;
  encode_png(width, height, sheet, palette_of(map_), png);
  canvas.image(all, {reinterpret_cast<const char*>(png.data()), png.size()}, opacity);
}

void draw_color_bar(Canvas& canvas, const Box& box, const ColorScale& scale,
                    const std::string& label, bool whole) {
  constexpr std::size_t kSteps = 128;
  if (scale.range.empty()) return;
  ColorScale shown = scale;
  if (!(shown.range.high > shown.range.low)) shown.range.high = shown.range.low + 1;
  Axis axis;
  axis.data = shown.range;
  axis.round = false;
  axis.whole = whole;
  std::vector<double> values(kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    double share = static_cast<double>(i) / (kSteps - 1);
    if (shown.square_root) share *= share;
    values[i] = shown.range.low + share * (shown.range.high - shown.range.low);
  }
  HeatSheet sheet(shown.map);
  sheet.add(box, values, 1, kSteps, shown);
  sheet.draw(canvas);
  canvas.frame(box, {kSoft, 0.6});
  canvas.text({box.x, box.y - 5}, label, {kSmallText, Anchor::kStart, kInk});
  const Scale ticks(axis, std::max(2, static_cast<int>(box.width / (whole ? 30 : 50))));
  // Labels the ends first, then the other ticks that have room.
  std::vector<Tick> order = ticks.ticks();
  if (order.size() > 2) std::swap(order[1], order.back());
  std::vector<Range> taken;
  for (const Tick& t : order) {
    const double at = box.x + std::clamp(shown.position(t.value), 0.0, 1.0) * box.width;
    const double half = text_width(t.label, kSmallText) / 2;
    canvas.line({at, box.bottom()}, {at, box.bottom() + 3}, {kSoft, 0.8});
    const bool free = std::none_of(taken.begin(), taken.end(), [&](const Range& r) {
      return at - half < r.high + 4 && at + half > r.low - 4;
    });
    if (!free) continue;
    canvas.text({at, box.bottom() + 14}, t.label, {kSmallText, Anchor::kMiddle, kSoft});
    taken.push_back({at - half, at + half});
  }
}

}  // namespace dtn::plot
