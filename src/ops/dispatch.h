// Converts a run-time element type to a template argument.
#pragma once

#include "dtn/core/check.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Calls f with a zero of type float or double.
template <class F>
void dispatch_real(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f(0.0f);
    case DType::kFloat64: return f(0.0);
    default: throw Error(cat("float32 or float64 is required, not ", name_of(dtype)));
  }
}

}  // namespace dtn
