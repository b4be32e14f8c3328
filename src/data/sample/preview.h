// Converts the inputs of a model back to images for people.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/io/image.h"

namespace dtn {

// Returns the RGB pixels of one normalised image [C, H, W]: value * std + mean of its channel,
// three times for a grey image. With an empty `mean` the normalisation is unknown: the least value
// becomes black, and the largest white. Values that are not finite become black. If there are not 1
// or 3 channels, the first is shown as grey.
Image preview_of(const float* image, std::int64_t channels, const ImageSize& size,
                 std::span<const float> mean, std::span<const float> std);

// Returns the image, reduced to a longer side of at most `side` pixels.
Image reduced_to(Image image, int side);

// Returns images of one size side by side, `columns` to a row, with gaps of 2 white pixels.
Image mosaic_of(std::span<const Image> images, int columns);

// Returns rows of images of different sizes, with gaps of 2 white pixels. Small images of one size
// stand below one another, as far as the height of their row allows.
Image sheet_of(std::span<const std::vector<Image>> rows);

}  // namespace dtn
