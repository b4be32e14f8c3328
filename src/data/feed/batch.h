// A batch of samples on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/core/fields.h"

namespace dtn {

struct Batch {
  Fields fields;                      // fields that the source carries, n rows each
  std::vector<std::int64_t> indices;  // [n], in the data set
  std::int64_t n = 0;
  std::int64_t number = 0;  // position in the epoch; to resume after it, start at number + 1
};

}  // namespace dtn
