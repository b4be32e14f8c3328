// Adaptive gradient clipping by units (optim.clip_adaptive).
#pragma once

#include "dtn/nn/parameters.h"

namespace dtn {

class AdaptiveClipping {
 public:
  // A unit is the weights of one output: a row along the first dimension, or a whole tensor of one
  // dimension. Leaves out the units of heads unless `with_head` is true. The store must be
  // allocated, and must outlive this object.
  AdaptiveClipping(ParameterStore& store, double factor, bool with_head);

  // Clips gradients that are multiplied by `scale` later.
  void clip(double scale);

 private:
  ParameterStore& store_;
  double factor_;
  Tensor units_;  // [units, 2] int64, on the device of the store
};

}  // namespace dtn
