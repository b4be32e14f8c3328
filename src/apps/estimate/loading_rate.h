// Speed of the training data loader.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Rate at which a loader makes samples in batches of at most `batch_size`, measured for `seconds`
// with the number of workers that config.data has for the device.
struct LoadingRate {
  double samples_per_second = 0;
  std::int64_t samples = 0;
  std::int64_t bad_samples = 0;
};
LoadingRate measure_loading(std::shared_ptr<const SampleSource> source,
                            const ExperimentConfig& config, std::int64_t batch_size, Split split,
                            double seconds, Device device = kCpu);

}  // namespace dtn
