// What the config loader must know of things that live above it: rows of their registries, as plain
// structs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/norm_config.h"

namespace dtn {

// A kind of data set.
struct DatasetSchema {
  std::string name;  // data.dataset
  std::string doc;
  // The keys of the section `data` that mean something for it, of those that do not for all: a key
  // that no data set lists is for every one.
  std::vector<std::string> keys;
};

// Anything else that a config calls by name.
struct NameSchema {
  std::string name;
  std::string doc;
};

// What augment.policy may begin with: a name, and what follows behind a dash.
struct PolicySchema {
  std::string name;
  std::string doc;
  // What is wrong with the whole text, if anything, in a sentence that names it. Null: nothing may
  // follow.
  std::function<std::optional<std::string>(const std::string& policy)> check;
};

struct ConfigSchemas {
  std::vector<NormSchema> norms;
  std::vector<DatasetSchema> datasets;
  std::vector<PolicySchema> policies;
  std::vector<NameSchema> optimizers, tasks;
};

}  // namespace dtn
