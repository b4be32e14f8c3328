// Normalization of x [.., C] over all its rows, with the statistics of the batch in training,
// towards which the running ones are moved unless a checkpointed block runs again, and with the
// running ones otherwise. With `sync`, the batch is that of all ranks. In training a batch of a
// single row is a ConfigError.
#pragma once

#include "dtn/config/norm_config.h"
#include "dtn/nn/running_statistics.h"
#include "norms/shared_batch.h"

namespace dtn {

// BatchNorm of x, which in training is all of the batch or a share of this one; weight and bias are
// [C], or undefined for 1 and 0.
Variable batch_norm(Context&, const char* op, const Variable& x, const Variable& weight,
                    const Variable& bias, double eps, const RunningStatistics&,
                    const std::shared_ptr<const ops::SharedBatch>& batch);
// The statistics alone, of x or of the batch that it is a share of, for an application of one's
// own.
ops::ChannelMoments batch_statistics(const Context&, const RunningStatistics&, const Tensor& x,
                                     double eps, const ops::SharedBatch*);

namespace reference {
// (x - mean) / sqrt(var + eps); leaves the running statistics alone.
Variable batch_norm(Context&, const Variable& x, double eps, const RunningStatistics&);
}  // namespace reference

// Of every normalizer that has running statistics.
OptionSchema momentum_option();

}  // namespace dtn
