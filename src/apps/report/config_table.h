// Keys and values of the configs of runs, and the differences between them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/schemas.h"
#include "plot/table.h"

namespace dtn {

// {"optim.lr", "0.001"}, in the order of config.yaml.
using ConfigValues = std::vector<std::pair<std::string, std::string>>;

// Returns none if the text is not YAML.
ConfigValues config_values(const std::string& yaml);
// Returns an empty text for a key that is missing or null.
std::string value_of(const ConfigValues& config, const std::string& key);

// Returns the config that has the same task, preset, norm, data set, optimizer and schedule as the
// run, and else defaults. Where this is no valid config, it also has some of the run's corruptions,
// sizes and conditions. Nothing if that is not valid either.
std::optional<ConfigValues> defaults_for(const ConfigValues& run, const ConfigSchemas& schemas);

// Returns the keys whose values differ, with one column per config. A name is no difference.
plot::Table differing_values(std::span<const std::string> names,
                             std::span<const ConfigValues> configs);

}  // namespace dtn
