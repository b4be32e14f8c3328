// train.freeze: parameters that keep their values while other parameters learn.
#pragma once

#include <string>

#include "dtn/config/train_config.h"
#include "dtn/nn/parameters.h"

namespace dtn {

// Freezes the parameters that the config names. Call before creating the optimizer. Throws
// ConfigError for a pattern that no parameter matches, and if no parameter is left to learn.
void freeze_parameters(const FreezeConfig& freeze, ParameterStore& store);

// Describes the frozen part of the store for the log; empty if nothing is frozen.
std::string describe_frozen(const ParameterStore& store);

}  // namespace dtn
