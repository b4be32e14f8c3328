#include "data/sample/erasing.h"

#include <cmath>

#include "core/normal_noise.h"
#include "data/sample/random.h"
#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kEraseStream = 0xA06E0002u;
constexpr std::uint64_t kEraseTries = 10;
constexpr std::uint64_t kEraseGroups = 16;  // groups of four words: the chance, then the tries
constexpr double kMinArea = 0.02, kMaxArea = 1.0 / 3, kMinAspect = 0.3;

Philox4 erase_words(const SampleKey& key, std::uint64_t group) {
  return philox_group({key.seed, kEraseStream, key.epoch}, key.sample * kEraseGroups + group);
}

}  // namespace

std::optional<EraseBox> erase_shape(int width, int height, double area, double aspect) {
  const double target = area * (static_cast<double>(height) * width);
  const double h = std::nearbyint(std::sqrt(target * aspect));
  const double w = std::nearbyint(std::sqrt(target / aspect));
  if (!(w < width && h < height)) return std::nullopt;
  return EraseBox{0, 0, static_cast<int>(w), static_cast<int>(h), 0};
}

std::optional<EraseBox> sample_erase(int width, int height, double chance, const SampleKey& key) {
  DTN_CHECK(width > 0 && height > 0, "cannot erase from an image of ", width, " x ", height);
  const Philox4 first = erase_words(key, 0);
  if (!(uniform(first.v[0], 0, 1) < chance)) return std::nullopt;
  for (std::uint64_t i = 1; i <= kEraseTries; ++i) {
    const Philox4 words = erase_words(key, i);
    const double area = uniform(words.v[0], kMinArea, kMaxArea);
    const double aspect =
        std::exp(uniform(words.v[1], std::log(kMinAspect), std::log(1 / kMinAspect)));
    std::optional<EraseBox> box = erase_shape(width, height, area, aspect);
    if (!box) continue;
    if (box->width == 0 || box->height == 0) return std::nullopt;  // tiny image
    box->top = uniform_index(words.v[2], height - box->height + 1);
    box->left = uniform_index(words.v[3], width - box->width + 1);
    box->noise = static_cast<std::uint64_t>(first.v[3]) << 32 | first.v[2];
    return box;
  }
  return std::nullopt;
}

void erase(const EraseBox& box, int channels, int width, int height, float* image) {
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      const std::int64_t at = (c * height + y) * width + box.left;
      write_noise(box.noise, static_cast<std::uint64_t>(at), box.width, image + at);
    }
  }
}

}  // namespace dtn
