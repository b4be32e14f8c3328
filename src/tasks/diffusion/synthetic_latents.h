// Latents of data.dataset synthetic, for models of other than 1 or 3 channels: for estimates and
// tests without data.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// data.size samples (default 1024, and 256 for validation) of standard normal numbers, which depend
// on the seed, the split and the index. Classes are balanced: label = index mod num_classes.
std::unique_ptr<Dataset> make_synthetic_latents(const ExperimentConfig& config, Split split);

}  // namespace dtn
