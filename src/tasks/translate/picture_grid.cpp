#include "tasks/translate/picture_grid.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Rgb = std::array<float, 3>;

// Colours of the channels of a picture that has neither 1 nor 3.
constexpr std::array<Rgb, 8> kChannelColors{{{0.16f, 0.16f, 0.20f},
                                             {0.90f, 0.35f, 0.20f},
                                             {0.20f, 0.60f, 0.95f},
                                             {0.95f, 0.80f, 0.25f},
                                             {0.30f, 0.75f, 0.40f},
                                             {0.75f, 0.40f, 0.85f},
                                             {0.55f, 0.85f, 0.85f},
                                             {0.95f, 0.60f, 0.70f}}};

// NaN becomes 0, as in the pictures of a model that diverges.
std::uint8_t byte_of(float pixel) {
  const float clamped = pixel > 0 ? std::min(pixel, 1.0f) : 0.0f;
  return static_cast<std::uint8_t>(std::lround(255 * clamped));
}

// The colour of a pixel, whose channels lie `stride` values apart.
Rgb color_of(const float* pixel, std::int64_t channels, std::int64_t stride) {
  if (channels == 1) return {pixel[0], pixel[0], pixel[0]};
  if (channels == 3) return {pixel[0], pixel[stride], pixel[2 * stride]};
  Rgb color{};
  for (std::int64_t c = 0; c < channels; ++c) {
    const Rgb& of_channel = kChannelColors[static_cast<std::size_t>(c) % kChannelColors.size()];
    for (std::size_t k = 0; k < 3; ++k) color[k] += pixel[c * stride] * of_channel[k];
  }
  return color;
}

// Copies a picture to the cell of the grid whose left upper corner is at (left, top).
void paste(const Tensor& pictures, std::int64_t sample, std::int64_t left, std::int64_t top,
           Image& grid) {
  const std::int64_t channels = pictures.dim(1), height = pictures.dim(2), width = pictures.dim(3);
  const std::int64_t plane = height * width;
  const float* from = pictures.data<float>() + sample * channels * plane;
  for (std::int64_t y = 0; y < height; ++y) {
    std::uint8_t* to = grid.pixels.data() + ((top + y) * grid.width + left) * grid.channels;
    for (std::int64_t x = 0; x < width; ++x) {
      const Rgb color = color_of(from + y * width + x, channels, plane);
      for (int k = 0; k < grid.channels; ++k) *to++ = byte_of(color[static_cast<std::size_t>(k)]);
    }
  }
}

}  // namespace

Image picture_grid(const std::vector<Tensor>& columns, std::int64_t rows) {
  DTN_CHECK(!columns.empty(), "a grid of pictures needs columns");
  const Tensor& first = columns.front();
  bool gray = true;
  for (const Tensor& column : columns) {
    DTN_CHECK(
        column.rank() == 4 && column.dtype() == DType::kFloat32 && column.dim(0) == first.dim(0) &&
            column.dim(2) == first.dim(2) && column.dim(3) == first.dim(3),
        "pictures ", to_string(column.shape()), " do not fit beside ", to_string(first.shape()));
    gray = gray && column.dim(1) == 1;
  }
  const std::int64_t count = std::min(rows, first.dim(0));
  const std::int64_t height = first.dim(2), width = first.dim(3);
  Image grid;
  grid.reshape(static_cast<int>(width * std::ssize(columns)), static_cast<int>(height * count),
               gray ? 1 : 3);
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t k = 0; k < std::ssize(columns); ++k) {
      paste(columns[static_cast<std::size_t>(k)], row, k * width, row * height, grid);
    }
  }
  return grid;
}

}  // namespace dtn
