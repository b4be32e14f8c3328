// Reads `costs:`, a table of a collection that needs no runs.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"

namespace dtn::config {

// Reads the value of `costs:` (see NormCosts), with `overrides` over the config of every row. A
// base is found relative to `folder`, or by name.
NormCosts read_norm_costs(const Node& node, const std::filesystem::path& folder,
                          std::span<const std::string> overrides, const ConfigSchemas& schemas);

}  // namespace dtn::config
