// Selects the template instance for a run-time floating-point type.
#pragma once

#include "dtn/core/dtype.h"
#include "kernels/cpu/simd.h"

namespace dtn {

namespace detail {
// Throws dtn::Error: `kernel` does not take `dtype`. Not inline, because the text streams that it
// uses must not be compiled for an instruction set that the machine may lack.
[[noreturn]] void fail_dtype(const char* kernel, DType dtype);
}  // namespace detail

namespace DTN_ISA {

// Calls f(T{}) with T = float, bfloat16 or double.
template <class F>
inline void for_dtype(const char* kernel, DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f(float{});
    case DType::kBFloat16: return f(bfloat16{});
    case DType::kFloat64: return f(double{});
    default: detail::fail_dtype(kernel, dtype);
  }
}

// Like for_dtype() without bfloat16, for kernels on parameters and statistics.
template <class F>
inline void for_accumulator_dtype(const char* kernel, DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32: return f(float{});
    case DType::kFloat64: return f(double{});
    default: detail::fail_dtype(kernel, dtype);
  }
}

}  // namespace DTN_ISA
}  // namespace dtn
