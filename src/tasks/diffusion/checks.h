// Checks of a config for the task diffusion.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// For TaskSchema::check: the preset of augmentation, and the range of the noise.
std::optional<ConfigProblem> diffusion_problem(const ExperimentConfig& config);

}  // namespace dtn
