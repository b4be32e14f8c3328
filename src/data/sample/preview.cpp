#include "data/sample/preview.h"

#include <algorithm>
#include <cmath>

#include "data/sample/resample.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kGap = 2;  // white pixels between images

// An image on a sheet.
struct Place {
  const Image* image;
  int left, top;
};

Image white_image(int width, int height) {
  Image out{width, height, 3, {}};
  out.pixels.assign(static_cast<std::size_t>(width) * height * 3, 255);
  return out;
}

void paste(const Image& image, int left, int top, Image& out) {
  DTN_CHECK(image.channels == 3, "the images of a preview must be RGB");
  for (int row = 0; row < image.height; ++row) {
    const auto from = image.pixels.begin() + std::ptrdiff_t{row} * image.width * 3;
    std::copy(from, from + std::ptrdiff_t{image.width} * 3,
              out.pixels.begin() + (std::ptrdiff_t{top + row} * out.width + left) * 3);
  }
}

// Places the images of a row of this height in columns, from left to right. An image goes below the
// one before it if that is of the same size and there is room. Returns the end of the row and the
// gap after it.
int place_row(const std::vector<Image>& row, int top, int height, std::vector<Place>& places) {
  int left = 0, end = 0, below = 0;
  const Image* last = nullptr;
  for (const Image& image : row) {
    const bool fits = last && image.width == last->width && image.height == last->height &&
                      below + image.height <= height;
    if (!fits) {
      left = end;
      below = 0;
    }
    places.push_back({&image, left, top + below});
    end = left + image.width + kGap;
    below += image.height + kGap;
    last = &image;
  }
  return end;
}

}  // namespace

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

Image reduced_to(Image image, int side) {
  const int longer = std::max(image.width, image.height);
  if (longer <= side) return image;
  const auto shrunk = [&](int old) {
    return std::max(1, static_cast<int>(std::int64_t{old} * side / longer));
  };
  Image small;
  ResampleWorkspace workspace;
  resize(view(image), shrunk(image.width), shrunk(image.height),
         Resampling(kBoxFilter, Resample::kPillow13), workspace, small);
  return small;
}

Image mosaic_of(std::span<const Image> images, int columns) {
  DTN_CHECK(!images.empty() && columns > 0, "cannot arrange ", images.size(), " images in ",
            columns, " columns");
  const int count = static_cast<int>(images.size());
  const int across = std::min(columns, count), down = (count + across - 1) / across;
  const int width = images[0].width, height = images[0].height;
  Image out = white_image(across * (width + kGap) - kGap, down * (height + kGap) - kGap);
  for (int n = 0; n < count; ++n) {
    const Image& image = images[static_cast<std::size_t>(n)];
    DTN_CHECK(image.width == width && image.height == height,
              "the images of a preview must be of one size");
    paste(image, n % across * (width + kGap), n / across * (height + kGap), out);
  }
  return out;
}

Image sheet_of(std::span<const std::vector<Image>> rows) {
  std::vector<Place> places;
  int width = 0, top = 0;
  for (const std::vector<Image>& row : rows) {
    int height = 0;
    for (const Image& image : row) height = std::max(height, image.height);
    width = std::max(width, place_row(row, top, height, places));
    top += height + kGap;
  }
  DTN_CHECK(!places.empty(), "a sheet without images");
  Image out = white_image(width - kGap, top - kGap);
  for (const Place& place : places) paste(*place.image, place.left, place.top, out);
  return out;
}

}  // namespace dtn
