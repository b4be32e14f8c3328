// The end of a residual block, x = residual + s_b branch, where the kernel of the norm behind it makes
// it on the way: a node of its own on the tape, whose value that kernel writes.
#pragma once

#include <memory>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// What of the sum's gradient reaches the branch. The norm's backward pass is the last to add to that
// gradient, and may leave scale times it here.
class BranchGradient {
 public:
  BranchGradient() = default;
  explicit BranchGradient(Tensor scale)
      : scale_(std::move(scale)), made_(std::make_shared<Tensor>()) {}

  // For the norm's kernel to write: [B, T, C], like `x`. Undefined where the branch gets no gradient of
  // its own, for want of a scale or of somebody who asks.
  Tensor make_like(const Tensor& x) const;
  const Tensor& scale() const { return scale_; }  // [B]
  // The gradient of the branch, given that of the sum: what a kernel has written to make_like()'s
  // tensor, or else scale times dsum, made now.
  Tensor take(const Tensor& dsum) const;

 private:
  Tensor scale_;
  std::shared_ptr<Tensor> made_;
};

struct FusedSum {
  // scale [B], accumulator type; undefined: 1.
  FusedSum(Context& ctx, const Variable& residual, const Variable& branch, const Tensor& scale);

  Tensor residual, branch, scale;
  Variable sum;  // not yet written
  BranchGradient gradient;
};

}  // namespace dtn::ops
