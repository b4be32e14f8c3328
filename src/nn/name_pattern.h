// Shell-style patterns for parameter names in a config, such as "blocks.1?.attn.*".
#pragma once

#include <string>

#include "dtn/nn/parameters.h"

namespace dtn {

bool matches_name(const std::string& pattern, const std::string& name);

// Throws ConfigError that names the config key if no parameter of the store matches.
void check_pattern(const std::string& key, const std::string& pattern, const ParameterStore& store);

}  // namespace dtn
