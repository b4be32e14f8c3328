// Layer scale: a gain for each channel at the end of a residual branch. The gains start near 0, so
// that a deep model starts near the identity (Touvron et al., Going deeper with Image Transformers,
// ICCV 2021). Parameter: gamma [C].
//
// The branch ends in a linear layer, and
//     gamma (x W^T + b) = x (gamma W)^T + gamma b
// so the gain is multiplied into the weight once a step instead of into every token.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/scope.h"

namespace dtn {

class LayerScale {
 public:
  LayerScale(const Scope&, std::int64_t channels, double start);

  // Values of the layer [C, in] with its result multiplied by gamma. Gradients flow through them.
  LinearValues folded_into(Context&, const Linear& layer) const;

 private:
  Parameter* gamma_;
};

}  // namespace dtn
