// What normalizers over the batch gather while they train and use afterwards.
#pragma once

#include "dtn/nn/scope.h"

namespace dtn {

// Buffers running_mean [C] (0 at first) and running_var [C] (of the unbiased variance, 1 at first),
// moved towards those of each batch by `momentum`, as PyTorch's BatchNorm does. With `sync`, the
// batch is that of all ranks.
struct RunningStatistics {
  Buffer *mean, *variance;
  double momentum;
  bool sync;

  RunningStatistics(const Scope&, std::int64_t channels, double momentum, bool sync);
};

}  // namespace dtn
