// The residual sum at the end of a block, x = residual + s_b branch, if the kernel of the next norm
// computes it. The sum has a separate node on the tape; the norm's kernel writes its value.
#pragma once

#include <memory>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// The gradient of the branch. The norm's backward pass is the last to add to the sum's gradient. It
// may store scale times that gradient here, and add the column sums to the gradient of the bias at
// the end of the branch.
class BranchGradient {
 public:
  BranchGradient() = default;
  // scale [B], or undefined for 1; branch may be null.
  BranchGradient(Tensor scale, GradSink branch)
      : scale_(std::move(scale)), branch_(std::move(branch)), made_(std::make_shared<Made>()) {}

  // Returns a tensor for the norm's kernel to write: [B, T, C], like `x`. Undefined if there is no
  // scale, or if the branch needs no gradient.
  Tensor make_like(const Tensor& x) const;
  // Returns the buffer to which the kernel that writes that tensor adds its column sums: [C],
  // accumulator type. Null if the sums are not needed, or would not be complete.
  void* sum_columns() const;
  const Tensor& scale() const { return scale_; }  // [B]
  // Adds the gradient to the branch: the tensor from make_like() if a kernel has written it, or
  // else scale times dsum. dsum is the gradient of the sum.
  void deliver(const Tensor& dsum) const;

 private:
  struct Made {
    Tensor gradient;
    bool columns = false;  // true: the kernel adds the column sums
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
