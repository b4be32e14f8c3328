// Normalization of x [.., C] over all its rows. Training uses the statistics of the batch and moves
// the running statistics towards them, unless a checkpointed block runs again. Evaluation uses the
// running statistics. With `sync`, the batch is that of all ranks. Training with a batch of a
// single row throws ConfigError.
#pragma once

#include "dtn/config/norm_config.h"
#include "dtn/nn/running_statistics.h"
#include "nn/norms/shared_batch.h"

namespace dtn {

// BatchNorm of x. In training x is a share of `batch`, or the whole batch if `batch` is null.
// weight and bias are [C], or undefined for 1 and 0. With `relu`, negative results become 0.
Variable batch_norm(Context&, const char* op, const Variable& x, const Variable& weight,
                    const Variable& bias, double eps, const RunningStatistics&,
                    const std::shared_ptr<const ops::SharedBatch>& batch, bool relu = false);
// Returns only the statistics, of x or of the batch that x is a share of. The caller applies them.
ops::ChannelMoments batch_statistics(const Context&, const RunningStatistics&, const Tensor& x,
                                     double eps, const ops::SharedBatch*);

namespace reference {
// (x - mean) / sqrt(var + eps); does not change the running statistics.
Variable batch_norm(Context&, const Variable& x, double eps, const RunningStatistics&);
}  // namespace reference

// The option `momentum` of every normalizer with running statistics.
OptionSchema momentum_option();

}  // namespace dtn
