// Several sweeps for one command and one page, such as all tables of a paper. The file:
//
//   title: "All tables"
//   sweeps:
//     - table1_models                              a sweep file, or the name of a shipped one
//     - {title: "Table 4", not_yet: "why"}         a table without a sweep, listed with the reason
//   evaluate: [imagenet-c]                         suites for every sweep besides its own
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/sweep_config.h"

namespace dtn {

struct CollectedSweep {
  std::string title;
  std::optional<SweepConfig> sweep;  // empty: no sweep exists yet
  std::string not_yet;               // reason why `sweep` is empty
};

struct SweepCollection {
  std::string name;   // default: the file's name
  std::string title;  // default: the name
  std::vector<CollectedSweep> tables;
};

// True if the file has `sweeps:`. Throws ConfigError if the file cannot be read or parsed.
bool is_sweep_collection(const std::string& path);

// Reads the file and all sweeps that it names, as load_sweep() does. Errors name file:line:column.
SweepCollection load_sweep_collection(const std::string& path,
                                      std::span<const std::string> overrides,
                                      const ConfigSchemas& schemas);

}  // namespace dtn
