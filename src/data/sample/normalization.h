// Conversion of pixels to the float32 input of a model: (pixel / 255 - mean) / std.
#pragma once

#include <span>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset_registry.h"
#include "dtn/io/image.h"

namespace dtn {

struct Normalization {
  std::vector<float> mean, std;  // one per channel, for pixels in [0, 1]
};
// Returns the values of the config, or the usual values of its data set (ImageNet's if it has
// none). A single value serves all channels. Throws ConfigError if the number of values is wrong or
// a deviation is not positive.
Normalization resolve_normalization(const DataConfig& config, int channels,
                                    const DatasetRegistry& datasets = dataset_registry());

// Returns the data with the mean and deviation of resolve_normalization() in place of unset ones.
// They then stay if the data set or its folder changes.
DataConfig with_statistics(DataConfig data, int channels, const DatasetRegistry& datasets);

// Returns the data with a mean and deviation of 0.5: pixels become -1 .. 1.
DataConfig symmetric_pixels(DataConfig data);

// Returns the normalized value of each pixel value: [channels, 256].
std::vector<float> normalization_table(const Normalization& normalization);

// Writes float32 [channels, height, width], mirrored left to right if `flip` is set.
void normalize_image(const Image& image, std::span<const float> table, bool flip, float* out);

}  // namespace dtn
