// Likeness of two pictures: peak signal-to-noise ratio and structural similarity, in float64.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace dtn {

// Sizes of pictures [channels, height, width].
struct PictureShape {
  std::int64_t channels, height, width;
  std::int64_t values() const { return channels * height * width; }
};

// PSNR in decibels, -10 log10(MSE), of pictures whose values count as clamped to [0, 1]. The mean
// square error is over all values and at least 1e-10, so equal pictures have 100.
double psnr(std::span<const float> picture, std::span<const float> target);

// SSIM (Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment: from error visibility to
// structural similarity", 2004): 11 x 11 Gaussian windows of deviation 1.5 that lie inside the
// picture, biased moments, K 0.01 and 0.03 for values clamped to [0, 1], mean over windows and
// channels. Unset: a side has fewer than 11 pixels.
std::optional<double> ssim(std::span<const float> picture, std::span<const float> target,
                           const PictureShape& shape);

}  // namespace dtn
