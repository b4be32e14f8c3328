#include "data/sample/preview.h"

#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"

namespace dtn {

Image preview_of(const float* image, std::int64_t channels, const ImageSize& size,
                 std::span<const float> mean, std::span<const float> std) {
  const std::int64_t plane = std::int64_t{size.height} * size.width;
  const auto [low, high] = std::minmax_element(image, image + channels * plane);
  const bool known = !mean.empty();
  const double bottom = *low, range = *high > *low ? *high - *low : 1;
  Image out{size.width, size.height, 3, {}};
  out.pixels.reserve(static_cast<std::size_t>(3 * plane));
  for (std::int64_t i = 0; i < plane; ++i) {
    for (std::int64_t rgb = 0; rgb < 3; ++rgb) {
      const std::int64_t c = channels == 3 ? rgb : 0;
      const auto at = static_cast<std::size_t>(c);
      const double value = image[c * plane + i];
      const double unit = known
                              ? value * static_cast<double>(std[at]) + static_cast<double>(mean[at])
                              : (value - bottom) / range;
      out.pixels.push_back(static_cast<std::uint8_t>(
          std::isfinite(unit) ? std::lround(255 * std::clamp(unit, 0.0, 1.0)) : 0));
    }
  }
  return out;
}

Image mosaic_of(std::span<const Image> images, int columns) {
  constexpr int kGap = 2;
  DTN_CHECK(!images.empty() && columns > 0, "cannot arrange ", images.size(), " images in ",
            columns, " columns");
  const int count = static_cast<int>(images.size());
  const int across = std::min(columns, count), down = (count + across - 1) / across;
  const int width = images[0].width, height = images[0].height;
  Image out{across * (width + kGap) - kGap, down * (height + kGap) - kGap, 3, {}};
  out.pixels.assign(static_cast<std::size_t>(out.width) * out.height * 3, 255);
  for (int n = 0; n < count; ++n) {
    const Image& image = images[static_cast<std::size_t>(n)];
    DTN_CHECK(image.width == width && image.height == height && image.channels == 3,
              "the images of a preview must be RGB and of one size");
    const int left = n % across * (width + kGap), top = n / across * (height + kGap);
    for (int row = 0; row < height; ++row) {
      const auto from = image.pixels.begin() + std::ptrdiff_t{row} * width * 3;
      std::copy(from, from + std::ptrdiff_t{width} * 3,
                out.pixels.begin() + (std::ptrdiff_t{top + row} * out.width + left) * 3);
    }
  }
  return out;
}

}  // namespace dtn
