// Checks of a config of the task dino, for TaskSchema::check.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Returns the first problem: a moving average besides the teacher, a preset that does not make the
// views, areas of crops in the wrong section, or local views that a vision transformer cannot split
// into patches.
std::optional<ConfigProblem> dino_problem(const ExperimentConfig& config);

}  // namespace dtn
