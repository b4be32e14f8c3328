// Gradient clipping of each parameter by itself (optim.clip_param_norm).
#pragma once

#include "dtn/nn/parameters.h"
#include "optim/tensor_table.h"

namespace dtn {

class ParameterClipping {
 public:
  // `clip`: largest gradient norm of a parameter. The store must be allocated, and must outlive
  // this object.
  ParameterClipping(ParameterStore& store, double clip);

  // Clips gradients that are multiplied by `scale` later.
  void clip(double scale);

 private:
  ParameterStore& store_;
  double clip_;
  TensorTable tensors_;  // the parameters that are not frozen
};

}  // namespace dtn
