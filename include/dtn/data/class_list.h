// The classes of a model or of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtn {

struct ClassList {
  std::string owner;               // what has the classes, for messages: "the checkpoint a"
  std::vector<std::string> names;  // in the order of labels; empty: not known; at most `count`
  std::int64_t count = 0;
};

}  // namespace dtn
