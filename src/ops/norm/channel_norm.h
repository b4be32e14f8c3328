// Normalization along the rows as an operation, for InstanceNorm, GroupNorm and BatchNorm. The
// formulas are in kernels/norm/channel_norm.h.
#pragma once

#include <memory>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Treats x [.., C] as [sets, rows, C].
struct ChannelNorm {
  std::int64_t sets;
  std::int64_t groups;  // of consecutive channels that share their statistics
  double eps;
  bool unbiased = false;
  bool relu = false;  // the result is max(y, 0)
  // Numbers of rows of each set, if they differ; empty: all sets have the same number.
  std::vector<std::int64_t> rows{};
};

// Moments of each set and group, [sets, groups] in the accumulator type. The mean is mean + rest.
struct ChannelMoments {
  Tensor mean, rest, variance;
};

// A batch whose rows are distributed over several processes. All processes make the same calls.
class SharedBatch {
 public:
  virtual ~SharedBatch() = default;
  // Returns the number of rows of all processes.
  virtual std::int64_t rows() const = 0;
  // Replaces the moments of this process's rows (one set) by the moments of all rows. Without a
  // rest, means are float64.
  virtual void combine(const ChannelMoments&) const = 0;
  // Replaces the sums over this process's rows by the sums over all rows.
  virtual void add_up(const Tensor& sums) const = 0;
};

// Returns the moments of x, without gradients.
ChannelMoments channel_statistics(const Tensor& x, const ChannelNorm&);

// Normalizes with the statistics of x, or of `batch`, which x is a share of (one set, one group per
// channel). Stores the statistics in `moments` unless it is null. With `batch`, the gradients of
// weight and bias are those of the share. weight and bias are [C], or [sets, C] for separate gains
// of each set, or undefined for 1 and 0. A gradient that already waits at x is added in the same
// pass.
Variable channel_norm(Context&, const char* op, const Variable& x, const Variable& weight,
                      const Variable& bias, const ChannelNorm&, ChannelMoments* moments = nullptr,
                      std::shared_ptr<const SharedBatch> batch = nullptr);
// The same with given statistics, which do not depend on x. An undefined rest is 0.
Variable channel_affine(Context&, const char* op, const Variable& x, const Variable& weight,
                        const Variable& bias, const ChannelNorm&, const ChannelMoments& given);

namespace reference {
// Without `relu`.
Variable channel_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                      const ChannelNorm&);
}  // namespace reference
}  // namespace dtn::ops
