// A data set with a transform, as samples for a loader.
#pragma once

#include <memory>
#include <utility>

#include "data/feed/image_samples.h"

namespace dtn::test {

inline std::shared_ptr<const ImageSamples> samples(std::shared_ptr<const Dataset> set,
                                                   Transform transform, bool raw_pixels = false,
                                                   const AugmentConfig& mixing = {}) {
  return std::make_shared<ImageSamples>(std::move(set), std::move(transform),
                                        ImageSamplesOptions{raw_pixels, mixing});
}

}  // namespace dtn::test
