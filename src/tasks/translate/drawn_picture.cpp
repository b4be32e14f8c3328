#include "tasks/translate/drawn_picture.h"

#include <algorithm>
#include <cstdlib>

namespace dtn::drawn {
namespace {

// The position of a pixel in raster order.
constexpr std::size_t place_of(int x, int y) {
  return static_cast<std::size_t>(y) * kSide + static_cast<std::size_t>(x);
}

constexpr std::uint32_t kPlanStream = 0x7A15'0100u, kNoiseStream = 0x7A15'0180u;

using Bytes = std::array<std::uint8_t, 3>;
constexpr std::array<Bytes, kColors> kShapeColors{
    {{220, 40, 40}, {40, 180, 60}, {50, 70, 220}, {230, 210, 50}}};
struct Texture {
  Bytes dark, light;
};
constexpr std::array<Texture, kClasses> kTextures{{{{130, 150, 170}, {180, 200, 215}},
                                                   {{200, 50, 40}, {245, 150, 80}},
                                                   {{30, 70, 170}, {110, 170, 240}},
                                                   {{40, 120, 40}, {150, 210, 90}}}};

// Random numbers of one picture, one after another.
class Numbers {
 public:
  explicit Numbers(const PhiloxKey& key) : key_(key) {}

  // Returns a number from 0 to n - 1.
  int below(int n) {
    const std::uint64_t word = philox_u32(key_, element_++);
    return static_cast<int>(word * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  PhiloxKey key_;
  std::uint64_t element_ = 0;
};

bool overlap(const Shape& a, const Shape& b) {
  return a.left < b.left + b.size && b.left < a.left + a.size && a.top < b.top + b.size &&
         b.top < a.top + a.size;
}

Shape draw_shape(Numbers& numbers) {
  Shape shape;
  shape.form = static_cast<Form>(numbers.below(kForms));
  shape.color = static_cast<Color>(numbers.below(kColors));
  shape.size = kMinSize + numbers.below(kMaxSize - kMinSize + 1);
  shape.left = numbers.below(kSide - shape.size + 1);
  shape.top = numbers.below(kSide - shape.size + 1);
  return shape;
}

// Draws a question that a shape fits, or one that no shape fits.
Question draw_question(const std::vector<Shape>& shapes, Numbers& numbers) {
  if (numbers.below(4) > 0) {
    const auto chosen = static_cast<std::size_t>(numbers.below(static_cast<int>(shapes.size())));
    return {shapes[chosen].form, shapes[chosen].color};
  }
  std::vector<Question> without;
  for (int form = 0; form < kForms; ++form) {
    for (int color = 0; color < kColors; ++color) {
      const Question question{static_cast<Form>(form), static_cast<Color>(color)};
      const auto fits = [&](const Shape& shape) { return question.asks_for(shape); };
      if (std::ranges::none_of(shapes, fits)) without.push_back(question);
    }
  }
  return without[static_cast<std::size_t>(numbers.below(static_cast<int>(without.size())))];
}

bool is_light(int pixel_class, int x, int y) {
  switch (pixel_class) {
    case 0: return (x + y) / 2 % 2 == 1;
    case 1: return y / 2 % 2 == 1;
    case 2: return x / 2 % 2 == 1;
    default: return (x / 2 + y / 2) % 2 == 1;
  }
}

float unit(int byte) { return static_cast<float>(byte) / 255.0f; }

void write_pixel(const Bytes& color, std::size_t at, std::span<float> out) {
  for (std::size_t c = 0; c < color.size(); ++c) out[c * kPixels + at] = unit(color[c]);
}

}  // namespace

bool Shape::covers(int x, int y) const {
  if (x < left || y < top || x >= left + size || y >= top + size) return false;
  // Twice the distances of the middle of the pixel from the middle of the square.
  const int dx = 2 * (x - left) + 1 - size, dy = 2 * (y - top) + 1 - size;
  switch (form) {
    case Form::kDisk: return dx * dx + dy * dy <= size * size;
    case Form::kSquare: return true;
    case Form::kTriangle: return std::abs(dx) <= y - top + 1;  // the tip is at the top
  }
  return false;
}

// A full picture has fewer shapes than were drawn.
Picture plan_picture(std::uint64_t seed, std::uint32_t split, std::uint32_t index) {
  constexpr int kTries = 50;
  Numbers numbers({seed, kPlanStream + split, index});
  Picture picture;
  picture.noise = {seed, kNoiseStream + split, index};
  for (int left = 1 + numbers.below(kMaxShapes); left > 0; --left) {
    for (int i = 0; i < kTries; ++i) {
      const Shape shape = draw_shape(numbers);
      const auto overlaps = [&](const Shape& other) { return overlap(shape, other); };
      if (std::ranges::any_of(picture.shapes, overlaps)) continue;
      picture.shapes.push_back(shape);
      break;
    }
  }
  picture.question = draw_question(picture.shapes, numbers);
  return picture;
}

ClassMap class_map(const Picture& picture) {
  ClassMap classes{};
  for (const Shape& shape : picture.shapes) {
    for (int y = shape.top; y < shape.top + shape.size; ++y) {
      for (int x = shape.left; x < shape.left + shape.size; ++x) {
        if (!shape.covers(x, y)) continue;
        classes[place_of(x, y)] = static_cast<std::uint8_t>(1 + static_cast<int>(shape.form));
      }
    }
  }
  return classes;
}

ClassMap plain_map(std::int64_t index) {
  ClassMap classes{};
  classes.fill(static_cast<std::uint8_t>(index % kClasses));
  return classes;
}

void write_one_hot(const ClassMap& classes, std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  for (std::size_t i = 0; i < kPixels; ++i) out[classes[i] * kPixels + i] = 1;
}

void write_textures(const ClassMap& classes, std::span<float> out) {
  for (int y = 0, at = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x, ++at) {
      const auto i = static_cast<std::size_t>(at);
      const Texture& texture = kTextures[classes[i]];
      write_pixel(is_light(classes[i], x, y) ? texture.light : texture.dark, i, out);
    }
  }
}

void write_colors(const Picture& picture, std::span<float> out) {
  constexpr int kGroup = 16;  // bytes
  Philox4 words{};
  for (std::size_t i = 0; i < kPixels; ++i) {
    if (i % kGroup == 0) words = philox_group(picture.noise, i / kGroup);
    const auto byte = static_cast<std::uint8_t>(words.v[i % kGroup / 4] >> (8 * (i % 4)));
    const auto gray = static_cast<std::uint8_t>(64 + byte / 2);
    write_pixel({gray, gray, gray}, i, out);
  }
  for (const Shape& shape : picture.shapes) {
    const Bytes& color = kShapeColors[static_cast<std::size_t>(shape.color)];
    for (int y = shape.top; y < shape.top + shape.size; ++y) {
      for (int x = shape.left; x < shape.left + shape.size; ++x) {
        if (shape.covers(x, y)) write_pixel(color, place_of(x, y), out);
      }
    }
  }
}

void write_question(const Question& question, std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  out[static_cast<std::size_t>(question.form)] = 1;
  out[kForms + static_cast<std::size_t>(question.color)] = 1;
}

void write_answer(const Picture& picture, std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  for (const Shape& shape : picture.shapes) {
    if (!picture.question.asks_for(shape)) continue;
    for (int y = shape.top; y < shape.top + shape.size; ++y) {
      for (int x = shape.left; x < shape.left + shape.size; ++x) {
        if (shape.covers(x, y)) out[place_of(x, y)] = 1;
      }
    }
  }
}

}  // namespace dtn::drawn
