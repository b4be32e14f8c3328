// Checks of augment.preset against the task, for TaskSchema::check.
#pragma once

#include <optional>
#include <string>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// For a task that takes one view of each image: refuses a preset that makes several.
std::optional<ConfigProblem> one_view_problem(const ExperimentConfig& config);

// For a task that takes several views: refuses presets other than `preset`, which `name` names in a
// config. Given views, as in a `tensors` file, go with any preset.
std::optional<ConfigProblem> several_views_problem(const ExperimentConfig& config,
                                                   AugmentPreset preset, const std::string& name);

// For the task supcon.
std::optional<ConfigProblem> supcon_problem(const ExperimentConfig& config);

}  // namespace dtn
