// Dropout of elements and of whole residual branches.
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// y = x mask / (1 - p) in training, x otherwise. The mask depends on (seed, stream, step, element)
// and is recomputed in the backward pass.
Variable dropout(Context&, const Variable& x, double p, std::uint32_t stream);

// Drop path (stochastic depth; Huang et al., "Deep networks with stochastic depth", ECCV 2016).
// Returns the factor of each sample's residual branch: 0 with probability p, else 1 / (1 - p).
// [B] in the accumulator type of `dtype`; undefined (no scaling) if p is 0 or outside training.
Tensor drop_path_scales(const Context&, std::int64_t batch, double p, std::uint32_t stream,
                        DType dtype, Device device = kCpu);

// residual + scale_b branch, for a branch that no fused operation has added.
Variable residual_add(Context&, const Variable& residual, const Variable& branch,
                      const Tensor& scale);

namespace reference {
Variable dropout(Context&, const Variable& x, double p, std::uint32_t stream);
Variable residual_add(Context&, const Variable& residual, const Variable& branch,
                      const Tensor& scale);
}  // namespace reference
}  // namespace dtn::ops
