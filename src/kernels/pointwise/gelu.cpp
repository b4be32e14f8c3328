#include "kernels/pointwise/gelu.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/map_values.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const GeluForward& g) {
  for_dtype("GeluForward", g.dtype, [&](auto t) {
    using T = decltype(t);
    map_values<T>(
        g.count, [](auto x) { return gelu<T>(x); }, g.y, g.x);
  });
}

void run(CpuQueue&, const GeluBackward& g) {
  for_dtype("GeluBackward", g.dtype, [&](auto t) {
    using T = decltype(t);
    map_values<T>(
        g.count, [](auto x, auto dy) { return dy * gelu_and_slope<T>(x).slope; }, g.dx, g.x, g.dy);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(GeluForward)
DTN_DISPATCH(GeluBackward)
