// Normalization of x [.., C] over all its rows, with the statistics of the batch in training,
// towards which the running ones are moved unless a checkpointed block runs again, and with the
// running ones otherwise.
#pragma once

#include "dtn/config/norm_config.h"
#include "dtn/nn/running_statistics.h"
#include "ops/channel_norm.h"

namespace dtn {

// BatchNorm; weight and bias are [C], or undefined for 1 and 0.
Variable batch_norm(Context&, const char* op, const Variable& x, const Variable& weight,
                    const Variable& bias, double eps, const RunningStatistics&);
// The statistics alone, for an application of one's own.
ops::ChannelMoments batch_statistics(const Context&, const RunningStatistics&, const Tensor& x,
                                     double eps);

namespace reference {
// (x - mean) / sqrt(var + eps); leaves the running statistics alone.
Variable batch_norm(Context&, const Variable& x, double eps, const RunningStatistics&);
}  // namespace reference

// Options of every normalizer that has running statistics.
OptionSchema momentum_option();
OptionSchema sync_option();

}  // namespace dtn
