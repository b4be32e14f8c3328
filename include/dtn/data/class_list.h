// The classes of a model or of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtn {

struct ClassList {
  std::string owner;               // owner of the classes, for messages: "the checkpoint a"
  std::vector<std::string> names;  // in label order; empty: unknown; at most `count`
  std::int64_t count = 0;
};

}  // namespace dtn
