// Helpers of the operations in dtn/ops/modulation.h.
#pragma once

#include <cstddef>
#include <utility>

#include "dtn/autograd/variable.h"
#include "dtn/core/check.h"

namespace dtn::ops {

// Throws Error unless the input `what` of an operation has this shape and type.
inline void check_like(const char* op, const char* what, const Variable& v, const Shape& shape,
                       DType dtype) {
  DTN_CHECK(v.shape() == shape && v.dtype() == dtype, op, ": ", what, " is ", name_of(v.dtype()),
            " ", to_string(v.shape()), ", not ", name_of(dtype), " ", to_string(shape));
}

// Returns the address of element `offset` of a tensor.
inline void* at(Tensor& t, std::int64_t offset) {
  return static_cast<std::byte*>(t.raw()) + static_cast<std::size_t>(offset) * size_of(t.dtype());
}
inline const void* at(const Tensor& t, std::int64_t offset) {
  return static_cast<const std::byte*>(t.raw()) +
         static_cast<std::size_t>(offset) * size_of(t.dtype());
}

// Returns an uninitialised tensor if the gradient is needed, else undefined.
inline Tensor empty_if(const GradSink& sink, const Shape& shape, DType dtype, Device device) {
  return sink ? Tensor::empty(shape, dtype, device) : Tensor();
}
inline void* raw_or_null(Tensor& t) { return t.defined() ? t.raw() : nullptr; }
inline void deliver(const GradSink& sink, Tensor grad) {
  if (sink) sink->accumulate(std::move(grad));
}

}  // namespace dtn::ops
