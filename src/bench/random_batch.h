// Samples that mean nothing, for steps whose time is all that counts.
#pragma once

#include <cstdint>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/core/fields.h"

namespace dtn {

// Random images, or sequences as long as may be, and labels, as Classify wants them.
Fields random_batch(const ModelConfig& model, std::int64_t n, Device device);

}  // namespace dtn
