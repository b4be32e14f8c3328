// Checks of a config for the task diffusion.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// For TaskSchema::check: channels, normalization and augmentation of the images, and the range of
// the noise.
std::optional<ConfigProblem> diffusion_problem(const ExperimentConfig& config);

}  // namespace dtn
