// Checks of a config: the loss and the data of the task translate.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Returns the first problem of the sections translate, data and augment, if any.
std::optional<ConfigProblem> translate_problem(const ExperimentConfig& config);

}  // namespace dtn
