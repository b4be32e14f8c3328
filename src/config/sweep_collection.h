// Several sweeps run by one command and shown on one page, such as all tables of a paper. The file:
//
//   title: "All tables"
//   sweeps:
//     - table1_models                              a sweep file, or the name of one that ships
//     - {title: "Table 4", not_yet: "why"}         a table there is no sweep for, shown as such
//   evaluate: [imagenet-c]                         what every sweep evaluates beside its own
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/sweep.h"

namespace dtn {

struct CollectedSweep {
  std::string title;
  std::optional<SweepConfig> sweep;  // nothing: there is none yet
  std::string not_yet;               // why
};

struct SweepCollection {
  std::string name;   // default: that of the file
  std::string title;  // default: the name
  std::vector<CollectedSweep> tables;
};

// Whether the file has `sweeps:`. Throws ConfigError for a file that cannot be read or parsed.
bool is_sweep_collection(const std::string& path);

// Reads the file and all sweeps it names, as load_sweep() does. An error names file:line:column.
SweepCollection load_sweep_collection(const std::string& path,
                                      std::span<const std::string> overrides,
                                      const ConfigSchemas& schemas);

}  // namespace dtn
