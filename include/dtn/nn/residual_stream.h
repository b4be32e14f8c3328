// The residual stream of a transformer: x, and perhaps a branch on its way to be added,
// x + s_b branch, where s_b is the drop-path scale of sample b.
#pragma once

#include <functional>

#include "dtn/nn/normalizer.h"

namespace dtn {

// The branch of a block is left pending where adding it is cheaper inside the next norm, which
// reads the stream anyway.
class ResidualStream {
 public:
  explicit ResidualStream(Variable x) : x_(std::move(x)) {}

  // The stream with everything added: [B, T, C].
  const Variable& sum(Context& ctx);
  // What the next branch works on, norm(x).
  Variable normalized(Context& ctx, Normalizer& norm, const TokenGrid& grid);

  // Runs `work`, which adds branches, on the stream; where ctx.mode.checkpoint_blocks says so once
  // more in the backward pass, with nothing of it saved. The stream is whole behind it then.
  void run(Context& ctx, const std::function<void(Context&, ResidualStream&)>& work);

  // Replaces the stream by a sum that has been made already.
  void set(Variable sum);
  // branch [B, T, C]; scale [B] in the accumulator type, or undefined for 1.
  void add(Variable branch, Tensor scale);

  // Whether the product at the end of a branch had better add the residual on the way. On the CPU
  // always; a CUDA product cannot scale the samples of its result, and leaves both to the next norm.
  static bool product_adds(const Tensor& scale) {
    return !scale.defined() || scale.device() == kCpu;
  }

 private:
  Variable x_;
  Variable branch_;  // undefined when nothing is pending
  Tensor scale_;
};

}  // namespace dtn
