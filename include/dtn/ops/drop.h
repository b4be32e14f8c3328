// Dropout of elements and of whole residual branches.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// y = x mask / (1 - p) while training, x otherwise. The mask comes from (seed, stream, step,
// element) and is recomputed in the backward pass.
Variable dropout(Context&, const Variable& x, double p, std::uint32_t stream);

// Drop path (stochastic depth; Huang et al., "Deep networks with stochastic depth", ECCV 2016):
// the factor of each sample's residual branch, 0 with probability p and 1 / (1 - p) otherwise,
// [B] in the accumulator type of `dtype`. Undefined (no scaling) when p is 0 or not training.
Tensor drop_path_scales(const Context&, std::int64_t batch, double p, std::uint32_t stream,
                        DType dtype, Device device = kCpu);

// residual + scale_b branch: the sum of a branch that no fused operation has added yet.
Variable residual_add(Context&, const Variable& residual, const Variable& branch,
                      const Tensor& scale);

namespace reference {
Variable dropout(Context&, const Variable& x, double p, std::uint32_t stream);
Variable residual_add(Context&, const Variable& residual, const Variable& branch,
                      const Tensor& scale);
}  // namespace reference
}  // namespace dtn::ops
