// Running statistics of batch normalizers: updated in training, used in evaluation.
#pragma once

#include "dtn/nn/scope.h"

namespace dtn {

// Buffers running_mean [C] (initially 0) and running_var [C] (of the unbiased variance, initially
// 1). Each batch moves them towards its statistics by `momentum`, as in PyTorch's BatchNorm. With
// `sync`, the statistics are those of the batch of all ranks.
struct RunningStatistics {
  Buffer *mean, *variance;
  double momentum;
  bool sync;

  RunningStatistics(const Scope&, std::int64_t channels, double momentum, bool sync);
};

}  // namespace dtn
