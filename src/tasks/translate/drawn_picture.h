// Small pictures with disks, squares and triangles, for the data set `drawn`. All arithmetic is on
// integers, so pictures are the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dtn/core/philox.h"

namespace dtn::drawn {

inline constexpr int kSide = 32;  // pixels
inline constexpr std::size_t kPixels = std::size_t{kSide} * kSide;
inline constexpr int kMinSize = 8, kMaxSize = 14;
inline constexpr int kMaxShapes = 3;
inline constexpr int kForms = 3, kColors = 4;
inline constexpr int kClasses = 1 + kForms;             // of a pixel: background, then the forms
inline constexpr int kQuestionSize = kForms + kColors;  // elements

enum class Form { kDisk, kSquare, kTriangle };
enum class Color { kRed, kGreen, kBlue, kYellow };

// A shape in the square of `size` pixels with the left upper corner (left, top).
struct Shape {
  Form form = Form::kDisk;
  Color color = Color::kRed;
  int left = 0, top = 0, size = 0;

  // True if the pixel belongs to the shape.
  bool covers(int x, int y) const;
};

// Asks for all shapes of one form and colour.
struct Question {
  Form form = Form::kDisk;
  Color color = Color::kRed;

  bool asks_for(const Shape& shape) const { return shape.form == form && shape.color == color; }
};

// A picture before it is drawn.
struct Picture {
  std::vector<Shape> shapes;  // 1 to 3; their squares do not overlap
  Question question;          // in a quarter of the pictures, no shape fits
  PhiloxKey noise;
};

// Plans a picture. `split` and `index` select it among those of a seed.
Picture plan_picture(std::uint64_t seed, std::uint32_t split, std::uint32_t index);

// Class of each pixel, [kSide, kSide]: 0 for the background, 1 + form for a shape.
using ClassMap = std::array<std::uint8_t, kPixels>;
ClassMap class_map(const Picture& picture);
// The map with one class everywhere: index mod kClasses.
ClassMap plain_map(std::int64_t index);

// Writes float32 [kClasses, kSide, kSide]: 1 for the class of the pixel, 0 for the others.
void write_one_hot(const ClassMap& classes, std::span<float> out);
// Writes [3, kSide, kSide] in [0, 1]: each class in its own texture, a pattern of two colours with
// a period of 4 pixels: diagonals (background), rows (disks), columns (squares), and squares
// (triangles).
void write_textures(const ClassMap& classes, std::span<float> out);
// Writes [3, kSide, kSide] in [0, 1]: the shapes in their colours on grey noise.
void write_colors(const Picture& picture, std::span<float> out);
// Writes [kForms + kColors]: 1 for the form and for the colour of the question, 0 for the others.
void write_question(const Question& question, std::span<float> out);
// Writes [1, kSide, kSide]: 1 for the pixels of shapes that the question asks for, else 0.
void write_answer(const Picture& picture, std::span<float> out);

}  // namespace dtn::drawn
