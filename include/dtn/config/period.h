// Periods of a training run.
#pragma once

#include <cstdint>

namespace dtn {

// A period in optimizer steps, or in epochs if written like `1epoch`.
struct Period {
  std::int64_t count = 0;  // 0: never
  bool epochs = false;
  bool operator==(const Period&) const = default;
};

}  // namespace dtn
