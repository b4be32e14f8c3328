// How the backward pass of a normalizer meets the gradient that already waits at its input: the
// residual stream's. The kernel adds it while it writes dx, and reuses its memory when nobody else
// holds it.
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
  // For the kernel: what to add (null: nothing) and where to write (null: dx is not wanted).
  const void* waiting() const { return waiting_.defined() ? waiting_.raw() : nullptr; }
  void* destination() { return dx_.defined() ? dx_.raw() : nullptr; }
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
