// Constants that the host computes element by element, for masks and matrices of references.
#pragma once

#include "ops/primitive/tensors.h"

namespace dtn::ops {

// Returns value(i), i = 0 .. numel - 1, rounded to the type and copied to the device.
template <class F>
Tensor host_constant(const Shape& shape, DType dtype, Device device, F&& value) {
  const bool wide = dtype == DType::kFloat64;
  Tensor t = Tensor::empty(shape, accumulator_of(dtype));
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const double v = value(i);
    wide ? void(t.data<double>()[i] = v) : void(t.data<float>()[i] = static_cast<float>(v));
  }
  return primitive::cast_tensor(t, dtype).to(device);
}

}  // namespace dtn::ops
