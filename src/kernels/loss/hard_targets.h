// Hard targets from logits: t[b, k] = 1 for the first class with the largest logit of row b, and 0
// for the others. A row with NaN among its logits becomes NaN throughout.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

struct HardTargets {
  DType dtype;  // of logits and targets: float32, or on the CPU float64
  std::int64_t rows, classes;
  const void* logits;  // [rows, K]
  void* targets;       // [rows, K]; may be logits
};
void run(CpuQueue&, const HardTargets&);
void run(CudaQueue&, const HardTargets&);

}  // namespace dtn
