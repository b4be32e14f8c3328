// Loss of a model whose result is an image.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/config/translate_config.h"

namespace dtn::ops {

// The means over all elements of |d|, d^2 and sqrt(d^2 + eps^2), with d = output - target, and
// their weighted sum: [1] each, in the accumulator type of the output. Gradients flow through
// `loss` only.
struct PixelLoss {
  Variable loss;
  Tensor l1, l2, charbonnier;
};
// output of any shape; target of the same shape, float32 (float64 with a float64 output). Throws
// Error otherwise.
PixelLoss pixel_loss(Context&, const Variable& output, const Tensor& target,
                     const TranslateConfig& weights);

namespace reference {
// The loss alone, made of primitive operations.
Variable pixel_loss(Context&, const Variable& output, const Tensor& target,
                    const TranslateConfig& weights);
}  // namespace reference
}  // namespace dtn::ops
