// Gradients clipped unit by unit, optim.clip_adaptive.
#pragma once

#include "dtn/nn/parameters.h"

namespace dtn {

class AdaptiveClipping {
 public:
  // A unit is what feeds one output, a row along the first dimension, or a whole tensor of one
  // dimension. Those of heads are left out unless `with_head` says otherwise. The store must be
  // allocated, and outlive this.
  AdaptiveClipping(ParameterStore& store, double factor, bool with_head);

  // Of gradients that are to be multiplied by `scale` later on.
  void clip(double scale);

 private:
  ParameterStore& store_;
  double factor_;
  Tensor units_;  // [units, 2] int64, where the store is
};

}  // namespace dtn
