#include "tasks/diffusion/sample_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/check.h"

namespace dtn {
namespace {

std::uint8_t brightness(float x) {
  const double value = 127.5 * (static_cast<double>(x) + 1);
  if (!(value > 0)) return 0;  // NaN, too
  return static_cast<std::uint8_t>(std::lround(std::fmin(value, 255)));
}

}  // namespace

Image sample_grid(const Tensor& samples, std::int64_t columns) {
  DTN_CHECK(
      samples.rank() == 4 && samples.dim(0) > 0 && (samples.dim(1) == 1 || samples.dim(1) == 3),
      "samples ", to_string(samples.shape()), " are no pictures");
  const std::int64_t n = samples.dim(0), channels = samples.dim(1);
  const std::int64_t height = samples.dim(2), width = samples.dim(3);
  if (columns == 0) {
    while (columns * columns < n) ++columns;
  }
  const std::int64_t rows = (n + columns - 1) / columns;
  DTN_CHECK(std::max(columns * width, rows * height) <= std::numeric_limits<int>::max() / 4 &&
                columns * width * rows * height < std::int64_t{1} << 31,
            "a picture of ", n, " samples of ", width, " x ", height, " is too large");
  Image grid;
  grid.reshape(static_cast<int>(columns * width), static_cast<int>(rows * height),
               static_cast<int>(channels));
  std::fill(grid.pixels.begin(), grid.pixels.end(), std::uint8_t{0});
  const float* value = samples.data<float>();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t top = i / columns * height, left = i % columns * width;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = 0; y < height; ++y) {
        std::uint8_t* pixel =
            grid.pixels.data() + ((top + y) * columns * width + left) * channels + c;
        for (std::int64_t x = 0; x < width; ++x) pixel[x * channels] = brightness(*value++);
      }
    }
  }
  return grid;
}

}  // namespace dtn
