// Bilinear resizing without antialiasing, as in OpenCV's INTER_LINEAR: four pixels around each
// point count, even if the image shrinks. Detectors are trained with it.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/io/image.h"

namespace dtn {

// Weights of a resized axis: point i reads pixels first[i] and second[i].
struct BilinearAxis {
  std::vector<std::int32_t> first, second;
  std::vector<float> weight;  // of the second pixel, from 0 to 1
};

// Point i of the result lies at (i + 1/2) from / to - 1/2 of the source, kept inside of it.
BilinearAxis bilinear_axis(std::int64_t from, std::int64_t to);

// Buffers of one thread, reused from image to image.
struct BilinearWorkspace {
  std::vector<float> rows[2];  // source rows, resized
};

// Resizes to height x width, with values rounded half up: OpenCV, which computes in fixed point,
// may differ by one. Mirrors the result left to right if `flip` is set. `out` has
// [height, width, channels] bytes.
void resize_bilinear(const Image& image, std::int64_t height, std::int64_t width, bool flip,
                     BilinearWorkspace& workspace, std::uint8_t* out);

}  // namespace dtn
