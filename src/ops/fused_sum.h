// The end of a residual block, x = residual + s_b branch, where the kernel of the norm behind it makes
// it on the way: a node of its own on the tape, whose value that kernel writes.
#pragma once

#include <memory>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// What of the sum's gradient reaches the branch. The norm's backward pass is the last to add to that
// gradient, and may leave scale times it here, and its column sums where the bias at the end of the
// branch gathers its gradient.
class BranchGradient {
 public:
  BranchGradient() = default;
  // scale [B], or undefined for 1; branch may be null.
  BranchGradient(Tensor scale, GradSink branch)
      : scale_(std::move(scale)), branch_(std::move(branch)), made_(std::make_shared<Made>()) {}

  // For the norm's kernel to write: [B, T, C], like `x`. Undefined where the branch gets no gradient of
  // its own, for want of a scale or of somebody who asks.
  Tensor make_like(const Tensor& x) const;
  // For a kernel that writes that tensor to add its column sums to: [C], accumulator type. Null where
  // nobody wants them.
  void* sum_columns() const;
  const Tensor& scale() const { return scale_; }  // [B]
  // Gives the branch its gradient, given that of the sum: what a kernel has written to make_like()'s
  // tensor, or else scale times dsum, made now.
  void deliver(const Tensor& dsum) const;

 private:
  struct Made {
    Tensor gradient;
    bool columns = false;  // are summed
  };
  Tensor scale_;
  GradSink branch_;
  std::shared_ptr<Made> made_;
};

struct FusedSum {
  // scale [B], accumulator type; undefined: 1.
  FusedSum(Context& ctx, const Variable& residual, const Variable& branch, const Tensor& scale);

  Tensor residual, branch, scale;
  Variable sum;  // not yet written
  BranchGradient gradient;
};

}  // namespace dtn::ops
