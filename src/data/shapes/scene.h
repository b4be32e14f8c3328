// Random scenes of discs, squares and triangles on noisy ground, for data sets that detectors learn
// from. A scene depends only on size, seed, split and number. All arithmetic is on integers, so it
// is the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dtn/core/philox.h"
#include "dtn/io/image.h"

namespace dtn::shapes {

inline constexpr int kMinSize = 32, kMaxSize = 4096;
inline constexpr int kUnits = 8;  // coordinates are in eighths of a pixel

// The classes. A disc is a polygon of 32 corners.
enum class Form { kDisc, kSquare, kTriangle };
inline constexpr int kForms = 3;

// A point, in eighths of a pixel from the left upper corner of the picture.
struct Point {
  int x = 0, y = 0;
};

using Color = std::array<std::uint8_t, 3>;

// A polygon of one colour.
struct Shape {
  Form form = Form::kDisc;
  Point center;
  int radius = 0;  // of the circle through the corners, in eighths of a pixel
  std::vector<Point> corners;
  Color color{};
};

// A strip along one side of the picture with many small shapes of one form.
struct Crowd {
  ImageRegion region;  // pixels
  Form form = Form::kDisc;
  std::vector<Shape> members;
};

// A picture before it is drawn.
struct Scene {
  int width = 0, height = 0;  // pixels
  std::vector<Shape> shapes;  // 1 to 4, or none; they do not touch each other, nor the crowd
  std::optional<Crowd> crowd;
  std::array<Color, 2> ground{};  // colours at the left upper and the right lower corner
  PhiloxKey noise;
};

// Selects a scene.
struct SceneKey {
  int size =
      128;  // the longer side in pixels, from kMinSize to kMaxSize; the other has 3/4 or more
  std::uint64_t seed = 0;
  std::uint32_t split = 0, number = 0;
};

// Plans a scene. Of 25 numbers in a row, one has an empty scene, and two have a crowd.
Scene plan_scene(const SceneKey& key);

// Draws a scene, [height, width, 3]. Edges are smooth, and every pixel has noise.
Image draw_scene(const Scene& scene);

}  // namespace dtn::shapes
