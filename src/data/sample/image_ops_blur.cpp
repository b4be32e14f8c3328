// Gaussian blur: P. Gwosdek et al., "Theoretical Foundations of Gaussian Convolution by Extended
// Box Filtering", SSVM 2011, with Pillow's mixture of float32, float64 and 24-bit fixed point.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/sample/image_kernels.h"
#include "data/sample/image_ops.h"
#include "data/sample/image_ops_common.h"
#include "data/sample/no_contraction.h"

DTN_NO_CONTRACTION

namespace dtn {
namespace {

using image_kernels::kernels;

constexpr int kPasses = 3;
constexpr int kMaxRadius = 1000;

// A box reaches `reach` whole pixels to both sides with weight `inner`, and one more pixel with
// weight `outer`. Weights are in units of 2^-24.
struct Box {
  int reach = 0;
  std::uint32_t inner = 0, outer = 0;
  int taps() const { return 2 * reach + 3; }
};

Box box_of(float radius) {
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  const float reach = whole + part;
  Box box;
  box.reach = static_cast<int>(reach);
  box.inner = static_cast<std::uint32_t>(static_cast<float>(1u << 24) / (reach * 2 + 1));
  box.outer = ((1u << 24) - static_cast<std::uint32_t>(box.reach * 2 + 1) * box.inner) / 2;
  return box;
}

// Pointers to the taps of one output row.
using Taps = std::array<const std::uint8_t*, 2 * (kMaxRadius + 1) + 3>;

void blur_row(std::uint8_t* row, int width, int channels, const Box& box, std::uint8_t* line,
              Taps& taps) {
  const int margin = box.reach + 1;
  const std::size_t bytes = static_cast<std::size_t>(width) * channels;
  std::uint8_t* const middle = line + static_cast<std::size_t>(margin) * channels;
  for (int k = 0; k < box.taps(); ++k) taps[static_cast<std::size_t>(k)] = line + k * channels;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::memcpy(middle, row, bytes);
    for (int k = 0; k < margin; ++k) {
      std::memcpy(line + k * channels, row, static_cast<std::size_t>(channels));
      std::memcpy(middle + bytes + k * channels, row + bytes - channels,
                  static_cast<std::size_t>(channels));
    }
    kernels().box(taps.data(), box.taps(), static_cast<std::int64_t>(bytes), box.inner, box.outer,
                  row);
  }
}

void blur_columns(const Image& image, const Box& box, Taps& taps, Image& out) {
  const std::int64_t stride = static_cast<std::int64_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y) {
    for (int k = 0; k < box.taps(); ++k)
      taps[static_cast<std::size_t>(k)] =
          image.pixels.data() + std::clamp(y + k - box.reach - 1, 0, image.height - 1) * stride;
    kernels().box(taps.data(), box.taps(), stride, box.inner, box.outer,
                  out.pixels.data() + y * stride);
  }
}

}  // namespace

void gaussian_blur(Image& image, double radius, ImageOpsWorkspace& workspace) {
  image_ops::check_image(image);
  DTN_CHECK(0 <= radius && radius <= kMaxRadius, "radius ", radius, " is not in 0 .. ", kMaxRadius);
  const Box box = box_of(static_cast<float>(radius));
  Taps taps;
  workspace.line.resize(static_cast<std::size_t>(image.width + 2 * (box.reach + 1)) *
                        image.channels);
  const std::int64_t stride = static_cast<std::int64_t>(image.width) * image.channels;
  for (int y = 0; y < image.height; ++y)
    blur_row(image.pixels.data() + y * stride, image.width, image.channels, box,
             workspace.line.data(), taps);
  image_ops::shape_like(image, workspace.image);
  for (int pass = 0; pass < kPasses; ++pass) {
    blur_columns(image, box, taps, workspace.image);
    std::swap(image, workspace.image);
  }
}

}  // namespace dtn
