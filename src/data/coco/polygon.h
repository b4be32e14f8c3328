// Masks of polygons, pixel for pixel as COCO's tools make them.
//
// A corner at (x, y) pixels is rounded to fifths of a pixel, u = int(5 x + 0.5) and
// v = int(5 y + 0.5), towards 0. Each side, the closing one too, is a list of points (u, v), one
// for each step along its longer axis (u if both are equal). The other coordinate is
// int(start + slope * steps + 0.5), counted from the end with the smaller coordinate on the long
// axis. Between two points with
//     min u = 5 X + 2,  X in [0, width)
// the mask changes at pixel (X, Y), and for all later pixels in column order, with
//     Y = ceil(clamp((min v + 0.5) / 5 - 0.5, 0, height)).
// A fill by pixel centres gives other masks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/coco/rle.h"

namespace dtn {

// A corner of a polygon, in fifths of a pixel.
struct Corner {
  std::int32_t u = 0, v = 0;

  bool operator==(const Corner&) const = default;
};

// Rounds a corner at (x, y) pixels. Throws DataError if a coordinate is not finite, or is more than
// about 429 million pixels, which 32 bits do not hold in fifths.
Corner corner_at(double x, double y);

// Returns the union of polygons, each a list x, y, x, y, ... in pixels. Polygons of fewer than
// three corners cover nothing. Work and memory grow with the columns that the sides cross inside
// of the image, not with the lengths of sides. Throws DataError for an odd number of coordinates, a
// corner that corner_at() refuses, and sides that cross more than 2^26 columns.
Rle rasterize(std::span<const std::vector<double>> polygons, std::int64_t height,
              std::int64_t width);

// The same of rounded corners.
Rle rasterize(std::span<const std::span<const Corner>> polygons, std::int64_t height,
              std::int64_t width);

}  // namespace dtn
