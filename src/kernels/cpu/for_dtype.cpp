// One definition serves all instruction sets; it is in the build with the dispatchers.
#if !defined(DTN_ISA) || defined(DTN_ISA_DISPATCHES)

#include "kernels/cpu/for_dtype.h"

#include "dtn/core/check.h"

namespace dtn::detail {

void fail_dtype(const char* kernel, DType dtype) {
  throw Error(cat(kernel, " does not take ", name_of(dtype),
                  "; cast to float32, bfloat16 or float64 first"));
}

}  // namespace dtn::detail

#endif
