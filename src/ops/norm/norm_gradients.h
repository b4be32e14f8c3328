// The gradient that already waits at the input of a normalizer: the residual stream's. The kernel
// of the backward pass adds it while it writes dx, and reuses its memory if nothing else holds it.
#pragma once

#include "dtn/autograd/variable.h"

namespace dtn::ops {

class NormInputGradient {
 public:
  NormInputGradient(const GradSink& sink, const Tensor& x) : sink_(sink) {
    if (!sink_) return;
    waiting_ = sink_->take();
    dx_ = waiting_.defined() && waiting_.unique() ? waiting_ : Tensor::empty_like(x);
  }
  // Kernel arguments: the gradient to add (null: none), and the output (null: dx is not needed).
  const void* waiting() const { return waiting_.raw(); }
  void* destination() { return dx_.raw(); }
  void deliver() {
    waiting_ = Tensor();
    if (sink_) sink_->set(std::move(dx_));
  }

 private:
  GradSink sink_;
  Tensor waiting_, dx_;
};

inline void* buffer_or_null(const GradSink& sink, const Shape& shape, DType dtype, Device device) {
  return sink ? sink->buffer(shape, dtype, device).raw() : nullptr;
}

}  // namespace dtn::ops
