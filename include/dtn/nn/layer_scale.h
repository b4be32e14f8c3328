// A gain for each channel at the end of a residual branch, which starts near 0 so that a deep model
// starts near the identity (Touvron et al., Going deeper with Image Transformers, ICCV 2021).
// Parameter: gamma [C].
//
// The branch ends in a linear layer, and gamma (x W^T + b) = x (gamma W)^T + gamma b: the gain goes
// into the weight, of which there is one a step, and not into the tokens, of which there are many.
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/scope.h"

namespace dtn {

class LayerScale {
 public:
  LayerScale(const Scope&, std::int64_t channels, double start);

  // The layer [C, in] with its result multiplied by gamma, as values that gradients go through.
  LinearValues folded_into(Context&, const Linear& layer) const;

 private:
  Parameter* gamma_;
};

}  // namespace dtn
