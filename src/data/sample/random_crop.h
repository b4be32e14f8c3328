// Random crops of training images, as torchvision's RandomResizedCrop and RandomHorizontalFlip.
#pragma once

#include <cstdint>

#include "dtn/config/data_config.h"
#include "dtn/data/sample_key.h"

namespace dtn {

// First step of every preset but `none`: this part of the image is resized, then mirrored if
// `flip`.
struct CropBox {
  int left = 0, top = 0, width = 0, height = 0;
  bool flip = false;
  bool operator==(const CropBox&) const = default;
};

// Stream of the random numbers of a sample's crop. Views of one image have streams of their own.
inline constexpr std::uint32_t kCropStream = 0xA06E0001u;

// Draws a flip with probability hflip, and a crop as torchvision's RandomResizedCrop.get_params:
// ten tries at a random area and log-uniform aspect ratio, then the largest central crop of an
// allowed ratio.
CropBox sample_crop(int width, int height, const AugmentConfig& augment, const SampleKey& key,
                    std::uint32_t stream = kCropStream);

// Throws ConfigError for bad areas, ratios or probabilities.
void check_augment(const AugmentConfig& augment);

// Returns data.train_interpolation or, if it is unset, data.interpolation.
TrainInterpolation train_interpolation_of(const DataConfig& data);
// Returns the filter that resizes the random crop of a sample.
Interpolation crop_interpolation(TrainInterpolation interpolation, const SampleKey& key,
                                 std::uint32_t stream = kCropStream);

}  // namespace dtn
