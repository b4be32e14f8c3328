// A data set whose images are corrupted when they are loaded. Private to dtn_data and evaluations.
#pragma once

#include <cstdint>
#include <memory>

#include "data/corrupt/corruption_io.h"

namespace dtn {

struct CorruptedOptions {
  CorruptionCell cell;
  std::uint64_t seed = 0;
  CorruptSource source = CorruptSource::kCrop;
  // kJpeg: a sample is exactly the JPEG that `dtn-data corrupt` would write. kPng: the pixels.
  CorruptFormat format = CorruptFormat::kJpeg;
  std::shared_ptr<const FrostTextures> frost;  // only for frost
};

// Returns the samples of `clean` in their order, with its labels and classes.
std::unique_ptr<Dataset> corrupted_dataset(std::shared_ptr<const Dataset> clean,
                                           CorruptedOptions options);

}  // namespace dtn
