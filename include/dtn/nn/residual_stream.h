// The residual stream of a transformer: x, and possibly a branch that is not added yet,
//     x + s_b branch
// where s_b is the drop-path scale of sample b. Its blocks can run again in the backward pass
// instead of saving activations.
#pragma once

#include <functional>

#include "dtn/nn/normalizer.h"

namespace dtn {

// Runs `block` on x, through checkpoint() if ctx.mode.checkpoint_blocks is set. `block` must be a
// pure function of x, its parameters and the context.
inline Variable run_block(Context& ctx, const Variable& x,
                          std::function<Variable(Context&, const Variable&)> block) {
  return ctx.mode.checkpoint_blocks ? checkpoint(ctx, x, std::move(block)) : block(ctx, x);
}

// A branch stays pending if it is cheaper to add it inside the next norm, which reads the stream
// anyway.
class ResidualStream {
 public:
  explicit ResidualStream(Variable x) : x_(std::move(x)) {}

  // The stream with all branches added: [B, T, C].
  const Variable& sum(Context& ctx);
  // The input of the next branch, norm(x).
  Variable normalized(Context& ctx, Normalizer& norm, const TokenGrid& grid);

  // Runs `work`, which adds branches, on the stream. With ctx.mode.checkpoint_blocks it saves no
  // activations and runs `work` again in the backward pass; no branch is then pending afterwards.
  void run(Context& ctx, const std::function<void(Context&, ResidualStream&)>& work);

  // Replaces the stream by a sum that is computed already.
  void set(Variable sum);
  // branch [B, T, C]; scale [B] in the accumulator type, or undefined for 1.
  void add(Variable branch, Tensor scale);

  // True if the last product of a branch should add the residual. Always on the CPU. A CUDA product
  // cannot scale the samples of its result, so the next norm scales and adds if there is a scale.
  static bool product_adds(const Tensor& scale) {
    return !scale.defined() || scale.device() == kCpu;
  }

 private:
  Variable x_;
  Variable branch_;  // undefined if nothing is pending
  Tensor scale_;
};

}  // namespace dtn
