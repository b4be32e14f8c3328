// Random erasing (Zhong et al., "Random erasing data augmentation", 2017) as in timm 0.4.9 and
// DeiT: a rectangle of the normalized image becomes noise, independent for every value.
#pragma once

#include <cstdint>
#include <optional>

namespace dtn {

struct SampleKey;  // dtn/data/sample_key.h

// Pixels that become noise. Their new values are elements of the sequence `noise` of
// core/normal_noise.h, selected by their place in the image [channels, height, width].
struct EraseBox {
  int left = 0, top = 0, width = 0, height = 0;
  std::uint64_t noise = 0;
  bool operator==(const EraseBox&) const = default;
};

// Draws the box to erase from a width x height image, with probability `chance`. The box has an
// area of 0.02 to 1/3 of the image's, a log-uniform aspect ratio of 0.3 to 1/0.3, and any place. It
// must be narrower and lower than the image. If ten tries give no box, nothing is erased.
std::optional<EraseBox> sample_erase(int width, int height, double chance, const SampleKey& key);

// Returns the box at (0, 0) for a share of the image's area and an aspect ratio (height by width).
// Returns nothing if the box does not fit.
std::optional<EraseBox> erase_shape(int width, int height, double area, double aspect);

// Erases the box from image [channels, height, width].
void erase(const EraseBox& box, int channels, int width, int height, float* image);

}  // namespace dtn
