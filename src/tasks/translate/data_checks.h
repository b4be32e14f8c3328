// Checks of a config: the data of the task translate.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Returns the first problem of data set, corruptions, augmentation, and the model's channels, image
// size and condition, if any. For TaskSchema::check.
std::optional<ConfigProblem> translate_data_problem(const ExperimentConfig& config);

}  // namespace dtn
