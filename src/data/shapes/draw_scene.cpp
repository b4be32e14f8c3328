#include <algorithm>
#include <utility>

#include "data/shapes/scene.h"

namespace dtn::shapes {
namespace {

constexpr int kSamples = 4;  // of a pixel, per axis, at odd eighths
constexpr int kAllSamples = kSamples * kSamples;
constexpr int kStep = kUnits / kSamples;

// Returns a / b rounded down, for b > 0.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// Returns the end points of a convex polygon at height y. A sample at x lies inside if first < x
// and x <= second. The two are equal where the polygon is not.
std::pair<int, int> span_at(const std::vector<Point>& corners, int y) {
  bool crossed = false;
  std::pair<int, int> span{0, 0};
  for (std::size_t i = 0; i < corners.size(); ++i) {
    Point a = corners[i], b = corners[(i + 1) % corners.size()];
    if ((a.y <= y) == (b.y <= y)) continue;
    if (a.y > b.y) std::swap(a, b);
    const std::int64_t along = std::int64_t{y - a.y} * (b.x - a.x);
    const int x = a.x + static_cast<int>(floor_divide(along, b.y - a.y));
    span = crossed ? std::pair(std::min(span.first, x), std::max(span.second, x)) : std::pair(x, x);
    crossed = true;
  }
  return span;
}

// Counts the samples of each pixel of a row that lie inside the polygon, [width].
void count_samples(const std::vector<Point>& corners, int row, std::vector<int>& counts) {
  std::ranges::fill(counts, 0);
  const int end = static_cast<int>(counts.size()) * kUnits;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto [first, last] = span_at(corners, row * kUnits + sample * kStep + kStep / 2);
    for (int x = std::max(first + 1, 0) | 1; x <= std::min(last, end - 1); x += kStep) {
      ++counts[x / kUnits];
    }
  }
}

void draw_shape(const Shape& shape, Image& image, std::vector<int>& counts) {
  const int top = std::max((shape.center.y - shape.radius) / kUnits - 1, 0);
  const int bottom = std::min((shape.center.y + shape.radius) / kUnits + 1, image.height - 1);
  for (int y = top; y <= bottom; ++y) {
    count_samples(shape.corners, y, counts);
    std::uint8_t* pixel = image.pixels.data() + static_cast<std::size_t>(y) * image.width * 3;
    for (int x = 0; x < image.width; ++x, pixel += 3) {
      if (counts[x] == 0) continue;
      for (int c = 0; c < 3; ++c) {
        const int mixed = shape.color[c] * counts[x] + pixel[c] * (kAllSamples - counts[x]);
        pixel[c] = static_cast<std::uint8_t>((mixed + kAllSamples / 2) / kAllSamples);
      }
    }
  }
}

// Fills the picture with a gradient from corner to corner.
void draw_ground(const Scene& scene, Image& image) {
  const int whole = scene.width + scene.height - 2;
  std::uint8_t* pixel = image.pixels.data();
  for (int y = 0; y < scene.height; ++y) {
    for (int x = 0; x < scene.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int mixed = scene.ground[0][c] * (whole - x - y) + scene.ground[1][c] * (x + y);
        *pixel++ = static_cast<std::uint8_t>(mixed / whole);
      }
    }
  }
}

// Adds noise from -31 to 31, the difference of two uniform numbers, to each channel.
void add_noise(const PhiloxKey& key, Image& image) {
  const std::int64_t pixels = std::int64_t{image.width} * image.height;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const Philox4 words = philox_group(key, static_cast<std::uint64_t>(i));
    for (int c = 0; c < 3; ++c) {
      const int noise = static_cast<int>(words.v[c] >> 27) - static_cast<int>(words.v[c] & 31);
      std::uint8_t& value = image.pixels[static_cast<std::size_t>(3 * i + c)];
      value = static_cast<std::uint8_t>(std::clamp(value + noise, 0, 255));
    }
  }
}

}  // namespace

Image draw_scene(const Scene& scene) {
  Image image;
  image.reshape(scene.width, scene.height, 3);
  draw_ground(scene, image);
  std::vector<int> counts(static_cast<std::size_t>(scene.width));
  if (scene.crowd) {
    for (const Shape& member : scene.crowd->members) draw_shape(member, image, counts);
  }
  for (const Shape& shape : scene.shapes) draw_shape(shape, image, counts);
  add_noise(scene.noise, image);
  return image;
}

}  // namespace dtn::shapes
