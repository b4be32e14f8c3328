// Random samples, for benchmarks of training steps.
#pragma once

#include <cstdint>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/core/fields.h"

namespace dtn {

// Returns random images, or sequences of the maximum length, with labels, as Classify expects them.
Fields random_batch(const ModelConfig& model, std::int64_t n, Device device);

}  // namespace dtn
