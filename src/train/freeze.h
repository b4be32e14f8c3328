// train.freeze: parameters that keep their values while the others learn.
#pragma once

#include <string>

#include "dtn/config/train_config.h"
#include "dtn/nn/parameters.h"

namespace dtn {

// Freezes what the config says of the store, before an optimizer is made for it. Throws ConfigError
// for a pattern that no parameter matches, and where nothing would be left to learn.
void freeze_parameters(const FreezeConfig& freeze, ParameterStore& store);

// How much of the store is frozen, for people; empty: nothing.
std::string describe_frozen(const ParameterStore& store);

}  // namespace dtn
