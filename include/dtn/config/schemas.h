// What the config loader must know of things that live above it: rows of their registries, as plain
// structs.
#pragma once

#include <span>
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

struct ConfigSchemas {
  std::vector<NormSchema> norms;
  std::span<const DatasetSchema> datasets;
};

}  // namespace dtn
