// Processing of a batch of images on the device; see image_samples.h.
#pragma once

#include <memory>

#include "data/sample/transforms.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Converts pixels to images if `raw`, and mixes images if `mixing` does. Returns null if there is
// nothing to do.
std::unique_ptr<BatchFinisher> make_image_finisher(const Transform& transform, bool raw,
                                                   const AugmentConfig& mixing, Device device);

}  // namespace dtn
