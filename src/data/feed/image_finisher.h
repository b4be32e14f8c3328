// What is done to the images of a batch on the device, see image_samples.h.
#pragma once

#include <memory>

#include "data/sample/transforms.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Makes images of pixels where `raw`, and mixes them where `mixing` says so. Null where there is
// nothing to do.
std::unique_ptr<BatchFinisher> make_image_finisher(const Transform& transform, bool raw,
                                                   const AugmentConfig& mixing, Device device);

}  // namespace dtn
