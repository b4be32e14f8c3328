// Random erasing (Zhong et al., "Random erasing data augmentation", 2017) as timm 0.4.9 and DeiT do
// it: a rectangle of the normalized image becomes noise, every value of every channel by itself.
#pragma once

#include <cstdint>
#include <optional>

namespace dtn {

struct SampleKey;  // dtn/data/sample_key.h

// Pixels that become noise. Their new values are elements of the sequence `noise` of
// core/normal_noise.h, by their place in the image [channels, height, width].
struct EraseBox {
  int left = 0, top = 0, width = 0, height = 0;
  std::uint64_t noise = 0;
  bool operator==(const EraseBox&) const = default;
};

// What to erase from a width x height image, with probability `chance`: an area of 0.02 to 1/3 of
// the image's, log-uniform aspect ratio of 0.3 to 1/0.3, anywhere. Ten tries at a box that is
// narrower and lower than the image; nothing is erased when none fits.
std::optional<EraseBox> sample_erase(int width, int height, double chance, const SampleKey& key);

// The sides of such a box, at (0, 0), for a share of the image's area and an aspect ratio (height
// by width); none where it does not fit.
std::optional<EraseBox> erase_shape(int width, int height, double area, double aspect);

// image [channels, height, width]
void erase(const EraseBox& box, int channels, int width, int height, float* image);

}  // namespace dtn
