// Elementwise functions of up to three arrays that are broadcast to one shape:
//    out[i] = f(in[0][i], in[1][i], in[2][i]; a, b)
// The functions are listed in elementwise_functions.inc. bfloat16 is computed in float32 and
// rounded once.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/primitive/strided.h"

namespace dtn {

enum class Function : std::uint8_t {
#define DTN_FUNCTION(name, inputs, formula) k##name,
#include "kernels/primitive/elementwise_functions.inc"
#undef DTN_FUNCTION
};

struct Elementwise {
  DType dtype;
  Function function;
  Extents extents;
  const void* in[3] = {};  // as many as the function takes
  Strides strides[3];
  void* out;  // dense; may be a dense input
  double a = 0, b = 0;
};
void run(CpuQueue&, const Elementwise&);
void run(CudaQueue&, const Elementwise&);

}  // namespace dtn
