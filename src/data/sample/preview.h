// Images as people see them again: what a model is fed, undone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/io/image.h"

namespace dtn {

// RGB pixels of one normalised image [C, H, W]: value * std + mean of its channel, those of a grey
// one three times. With an empty `mean` nobody knows how it was normalised, and its least value
// becomes black, its largest white. What is not finite is black. Of other than 1 or 3 channels the
// first is shown, as grey.
Image preview_of(const float* image, std::int64_t channels, const ImageSize& size,
                 std::span<const float> mean, std::span<const float> std);

// Images of one size side by side, `columns` to a row, a gap of 2 white pixels between them.
Image mosaic_of(std::span<const Image> images, int columns);

}  // namespace dtn
