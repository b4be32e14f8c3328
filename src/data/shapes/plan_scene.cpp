#include <algorithm>

#include "data/shapes/scene.h"
#include "dtn/core/check.h"

namespace dtn::shapes {
namespace {

constexpr std::uint32_t kPlanStream = 0x5348'0000, kNoiseStream = 0x5348'8000;

// Random numbers of one scene, one after another.
class Draws {
 public:
  explicit Draws(const PhiloxKey& key) : key_(key) {}

  // Returns a number from 0 to n - 1.
  int below(int n) {
    const std::uint64_t word = philox_u32(key_, element_++);
    return static_cast<int>(word * static_cast<std::uint64_t>(n) >> 32);
  }
  int between(int min, int max) { return min + below(max - min + 1); }

 private:
  PhiloxKey key_;
  std::uint64_t element_ = 0;
};

// Directions are in 96ths of a turn, which corners of 3, 4 and 32 divide.
constexpr int kTurn = 96, kQuarter = kTurn / 4;
// Forms are tilted by up to this, 15 degrees.
constexpr int kMaxTilt = kTurn / 24;
constexpr int kUnitShift = 14;
// 2^14 cos(2 pi i / 96), rounded.
constexpr std::array<int, kQuarter + 1> kCosines = {
    16384, 16349, 16244, 16069, 15826, 15515, 15137, 14694, 14189, 13623, 12998, 12318, 11585,
    10803, 9974,  9102,  8192,  7246,  6270,  5266,  4240,  3196,  2139,  1072,  0};

int cosine(int direction) {
  direction = (direction % kTurn + kTurn) % kTurn;
  if (direction > kTurn / 2) direction = kTurn - direction;
  return direction <= kQuarter ? kCosines[direction] : -kCosines[kTurn / 2 - direction];
}

// Returns radius x cosine / 2^14, rounded.
int scaled(int radius, int unit) {
  const std::int64_t half = std::int64_t{1} << (kUnitShift - 1);
  return static_cast<int>((std::int64_t{radius} * unit + half) >> kUnitShift);
}

int corners_of(Form form) { return form == Form::kDisc ? 32 : form == Form::kSquare ? 4 : 3; }

Shape make_shape(Form form, Point center, int radius, int direction, const Color& color) {
  Shape shape{form, center, radius, {}, color};
  const int corners = corners_of(form);
  for (int i = 0; i < corners; ++i) {
    const int at = direction + i * (kTurn / corners);
    shape.corners.push_back(
        {center.x + scaled(radius, cosine(at)), center.y + scaled(radius, cosine(at - kQuarter))});
  }
  return shape;
}

// Direction of the first corner if the form stands upright: a square on a side, a triangle with a
// corner above the others. y points down.
int upright_direction(Form form) { return form == Form::kSquare ? kTurn / 8 : 3 * kQuarter; }

Form draw_form(Draws& draws) { return static_cast<Form>(draws.below(kForms)); }

// Ground is of middle brightness. A shape has each channel dark or bright, so it stands out. The
// colour tells nothing about the form.
Color draw_color(Draws& draws) {
  const int bright = draws.between(1, 6);  // bits of the bright channels: not all, and not none
  Color color;
  for (int c = 0; c < 3; ++c) {
    const bool is_bright = (bright >> c & 1) != 0;
    color[c] =
        static_cast<std::uint8_t>(is_bright ? draws.between(190, 235) : draws.between(20, 65));
  }
  return color;
}

Color draw_ground(Draws& draws) {
  Color color;
  const int gray = draws.between(96, 160);
  for (std::uint8_t& value : color)
    value = static_cast<std::uint8_t>(gray + draws.between(-16, 16));
  return color;
}

// Part of the picture, in eighths of a pixel.
struct Area {
  int x0, y0, x1, y1;
};

Shape draw_shape_in(const Area& area, Form form, int radius, Draws& draws) {
  const Point center{draws.between(area.x0 + radius, area.x1 - radius),
                     draws.between(area.y0 + radius, area.y1 - radius)};
  const int direction = upright_direction(form) + draws.between(-kMaxTilt, kMaxTilt);
  return make_shape(form, center, radius, direction, draw_color(draws));
}

bool touches(const Shape& a, const Shape& b) {
  const std::int64_t dx = a.center.x - b.center.x, dy = a.center.y - b.center.y;
  const std::int64_t reach = a.radius + b.radius + 2 * kUnits;
  return dx * dx + dy * dy < reach * reach;
}

// Makes the crowd, and takes its strip from the free area.
Crowd draw_crowd(const Scene& scene, Area& free, Draws& draws) {
  const int thickness = std::max(scene.width, scene.height) / 8;
  const int side = draws.below(4);  // left, top, right, bottom
  Crowd crowd{{0, 0, scene.width, scene.height}, draw_form(draws), {}};
  ImageRegion& strip = crowd.region;
  if (side == 0) free.x0 = (strip.x1 = thickness) * kUnits;
  if (side == 1) free.y0 = (strip.y1 = thickness) * kUnits;
  if (side == 2) free.x1 = (strip.x0 = scene.width - thickness) * kUnits;
  if (side == 3) free.y1 = (strip.y0 = scene.height - thickness) * kUnits;
  // One small shape in each of the squares that the strip is cut into.
  const bool upright = side % 2 == 0;
  const int step = thickness * kUnits;
  const int steps = (upright ? scene.height : scene.width) / thickness;
  for (int i = 0; i < steps; ++i) {
    Area square{strip.x0 * kUnits, strip.y0 * kUnits, 0, 0};
    (upright ? square.y0 : square.x0) += i * step;
    square.x1 = square.x0 + step;
    square.y1 = square.y0 + step;
    crowd.members.push_back(draw_shape_in(square, crowd.form, step * 3 / 8, draws));
  }
  return crowd;
}

}  // namespace

Scene plan_scene(const SceneKey& key) {
  DTN_CHECK(kMinSize <= key.size && key.size <= kMaxSize, "size is ", key.size);
  Draws draws({key.seed, kPlanStream + key.split, key.number});
  Scene scene;
  scene.noise = {key.seed, kNoiseStream + key.split, key.number};
  scene.ground = {draw_ground(draws), draw_ground(draws)};
  const int longer = key.size, shorter = longer * draws.between(24, 31) / 32;
  const bool upright = draws.below(2) == 1;
  scene.width = upright ? shorter : longer;
  scene.height = upright ? longer : shorter;
  const std::uint32_t place = key.number % 25;
  if (place == 11) return scene;
  Area free{0, 0, scene.width * kUnits, scene.height * kUnits};
  if (place == 4 || place == 17) scene.crowd = draw_crowd(scene, free, draws);
  for (int left = draws.between(1, 4); left > 0; --left) {
    const Form form = draw_form(draws);
    constexpr int kTries = 50;  // a picture that is full has fewer shapes
    for (int i = 0; i < kTries; ++i) {
      const int radius = draws.between(longer * kUnits * 9 / 100 + 1, longer * kUnits * 27 / 100);
      Shape shape = draw_shape_in(free, form, radius, draws);
      if (std::ranges::any_of(scene.shapes, [&](const Shape& s) { return touches(s, shape); })) {
        continue;
      }
      scene.shapes.push_back(std::move(shape));
      break;
    }
  }
  return scene;
}

}  // namespace dtn::shapes
