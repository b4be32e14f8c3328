#include "data/sample/random_crop.h"

#include <algorithm>
#include <cmath>

#include "data/sample/random.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr int kCropTries = 10;
constexpr std::uint64_t kCropGroups = 16;  // groups of four words: one per try, one for the rest

Philox4 crop_words(const SampleKey& key, std::uint32_t stream, std::uint64_t group) {
  return philox_group({key.seed, stream, key.epoch}, key.sample * kCropGroups + group);
}

CropBox central_crop(int width, int height, const AugmentConfig& a) {
  const double ratio = static_cast<double>(width) / height;
  CropBox box{0, 0, width, height};
  if (ratio < a.ratio_min) {
    box.height = std::clamp(round_even(width / a.ratio_min), 1, height);
  } else if (ratio > a.ratio_max) {
    box.width = std::clamp(round_even(height * a.ratio_max), 1, width);
  }
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

bool draw_crop(int width, int height, const AugmentConfig& a, const Philox4& words, CropBox& box) {
  const double area = static_cast<double>(width) * height;
  const double target = area * uniform(words.v[0], a.scale_min, a.scale_max);
  const double ratio = std::exp(uniform(words.v[1], std::log(a.ratio_min), std::log(a.ratio_max)));
  const double w = std::nearbyint(std::sqrt(target * ratio));
  const double h = std::nearbyint(std::sqrt(target / ratio));
  if (!(0 < w && w <= width && 0 < h && h <= height)) return false;
  box.width = static_cast<int>(w);
  box.height = static_cast<int>(h);
  box.top = uniform_index(words.v[2], height - box.height + 1);
  box.left = uniform_index(words.v[3], width - box.width + 1);
  return true;
}

}  // namespace

CropBox sample_crop(int width, int height, const AugmentConfig& augment, const SampleKey& key,
                    std::uint32_t stream) {
  DTN_CHECK(width > 0 && height > 0, "cannot crop an image of ", width, " x ", height);
  CropBox box;
  bool found = false;
  for (int i = 0; i < kCropTries && !found; ++i)
    found = draw_crop(width, height, augment,
                      crop_words(key, stream, static_cast<std::uint64_t>(i)), box);
  if (!found) box = central_crop(width, height, augment);
  box.flip = uniform(crop_words(key, stream, kCropGroups - 1).v[0], 0, 1) < augment.hflip;
  return box;
}

void check_augment(const AugmentConfig& a) {
  if (!(0 < a.scale_min && a.scale_min <= a.scale_max && a.scale_max <= 1))
    throw ConfigError(
        cat("the crop's scale range ", a.scale_min, " .. ", a.scale_max, " must lie in (0, 1]"));
  if (!(0 < a.ratio_min && a.ratio_min <= a.ratio_max && std::isfinite(a.ratio_max)))
    throw ConfigError(cat("the crop's ratio range ", a.ratio_min, " .. ", a.ratio_max,
                          " must be positive and ascending"));
  if (!(0 <= a.hflip && a.hflip <= 1))
    throw ConfigError(cat("the flip probability ", a.hflip, " must lie in [0, 1]"));
  if (!(0 <= a.erase && a.erase <= 1))
    throw ConfigError(cat("the chance of random erasing ", a.erase, " must lie in [0, 1]"));
}

TrainInterpolation train_interpolation_of(const DataConfig& data) {
  if (data.train_interpolation) return *data.train_interpolation;
  return data.interpolation == Interpolation::kBilinear ? TrainInterpolation::kBilinear
                                                        : TrainInterpolation::kBicubic;
}

Interpolation crop_interpolation(TrainInterpolation interpolation, const SampleKey& key,
                                 std::uint32_t stream) {
  if (interpolation != TrainInterpolation::kRandom) {
    return interpolation == TrainInterpolation::kBilinear ? Interpolation::kBilinear
                                                          : Interpolation::kBicubic;
  }
  const std::uint32_t word = crop_words(key, stream, kCropGroups - 1).v[1];
  return uniform_index(word, 2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
}

}  // namespace dtn
