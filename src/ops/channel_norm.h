// Normalization along the rows as an operation: what InstanceNorm, GroupNorm and BatchNorm share.
// The formulas are in kernels/channel_norm.h.
#pragma once

#include <memory>
#include <vector>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// x [.., C] is seen as [sets, rows, C].
struct ChannelNorm {
  std::int64_t sets;
  std::int64_t groups;  // of consecutive channels that share their statistics
  double eps;
  bool unbiased = false;
  // How many of the rows of x are each set's, where these differ; none: all have equally many.
  std::vector<std::int64_t> rows{};
};

// Of each set and group, [sets, groups] in the accumulator type. The mean is mean + rest.
struct ChannelMoments {
  Tensor mean, rest, variance;
};

// A batch whose rows are spread over several processes, which all make the same calls.
class SharedBatch {
 public:
  virtual ~SharedBatch() = default;
  // Of all processes.
  virtual std::int64_t rows() const = 0;
  // Moments of the rows that are here, of one set, become those of all rows. Without a rest, means
  // are float64.
  virtual void combine(const ChannelMoments&) const = 0;
  // Sums over the rows that are here become those over all rows.
  virtual void add_up(const Tensor& sums) const = 0;
};

// Of x, for uses of their own; no gradients.
ChannelMoments channel_statistics(const Tensor& x, const ChannelNorm&);

// Normalizes with the statistics of x, which are handed out, or of the batch that x is a share of
// (one set of channels on their own); the gradients of weight and bias are then those of the share.
// weight and bias are [C], or [sets, C] for gains of each set's own, or undefined for 1 and 0. A
// gradient that already waits at x is added in the same pass.
Variable channel_norm(Context&, const char* op, const Variable& x, const Variable& weight,
                      const Variable& bias, const ChannelNorm&, ChannelMoments* moments = nullptr,
                      std::shared_ptr<const SharedBatch> batch = nullptr);
// The same with given statistics, which do not depend on x; an undefined rest is 0.
Variable channel_affine(Context&, const char* op, const Variable& x, const Variable& weight,
                        const Variable& bias, const ChannelNorm&, const ChannelMoments& given);

namespace reference {
Variable channel_norm(Context&, const Variable& x, const Variable& weight, const Variable& bias,
                      const ChannelNorm&);
}
}  // namespace dtn::ops
