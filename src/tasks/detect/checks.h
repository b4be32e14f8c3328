// Checks of a config with the task detect.
#pragma once

#include <optional>

#include "dtn/config/schemas.h"

namespace dtn {

std::optional<ConfigProblem> detect_problem(const ExperimentConfig& config);

}  // namespace dtn
