// A gain for each channel at the end of a residual branch, which starts near 0 so that a deep model
// starts near the identity (Touvron et al., Going deeper with Image Transformers, ICCV 2021).
// Parameter: gamma [C].
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/nn/scope.h"

namespace dtn {

class LayerScale {
 public:
  LayerScale(const Scope&, std::int64_t channels, double start);

  // gamma x, of x [..., C].
  Variable forward(Context&, const Variable& x) const;

 private:
  Parameter* gamma_;
};

}  // namespace dtn
