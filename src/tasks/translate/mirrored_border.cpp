#include "tasks/translate/mirrored_border.h"

#include <algorithm>
#include <span>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {
namespace {

// The place among n places that place i of the continued row shows.
std::int64_t mirrored(std::int64_t i, std::int64_t n) {
  if (n == 1) return 0;
  const std::int64_t period = 2 * (n - 1), at = i % period;
  return std::min(at, period - at);
}

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Copies rows and columns of each plane as they are mirrored.
Tensor resized(const Tensor& pictures, std::int64_t height, std::int64_t width) {
  const std::int64_t rows = pictures.dim(2), columns = pictures.dim(3);
  const Shape shape{pictures.dim(0), pictures.dim(1), height, width};
  const std::span<const float> from = pictures.values<float>();
  std::vector<float> to;
  to.reserve(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t plane = 0; plane < pictures.dim(0) * pictures.dim(1); ++plane) {
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = (plane * rows + mirrored(y, rows)) * columns;
      for (std::int64_t x = 0; x < width; ++x) {
        to.push_back(from[static_cast<std::size_t>(row + mirrored(x, columns))]);
      }
    }
  }
  return Tensor::from(to, shape);
}

}  // namespace

Tensor with_mirrored_border(const Tensor& pictures, std::int64_t multiple) {
  DTN_CHECK(pictures.rank() == 4 && pictures.dtype() == DType::kFloat32 && pictures.numel() > 0,
            "pictures are float32 [N, C, H, W], not ", to_string(pictures.shape()));
  return resized(pictures, rounded_up(pictures.dim(2), multiple),
                 rounded_up(pictures.dim(3), multiple));
}

Tensor without_border(const Tensor& pictures, std::int64_t height, std::int64_t width) {
  DTN_CHECK(height <= pictures.dim(2) && width <= pictures.dim(3), "a part of ", height, " x ",
            width, " of pictures ", to_string(pictures.shape()));
  return resized(pictures, height, width);
}

}  // namespace dtn
