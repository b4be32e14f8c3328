#include "kernels/pointwise/gelu.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/gemm/linear.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class T>
void forward(const GeluForward& g) {
  const T* x = static_cast<const T*>(g.x);
  T* y = static_cast<T*>(g.y);
  parallel_ranges(g.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_vector<AccumulatorOf<T>>(end - begin, [&](std::int64_t i, auto n) {
      store_n(y + begin + i, gelu<T>(load_n(x + begin + i, n)), n);
    });
  });
}

template <class T>
void backward(const GeluBackward& g) {
  const T* x = static_cast<const T*>(g.x);
  const T* dy = static_cast<const T*>(g.dy);
  T* dx = static_cast<T*>(g.dx);
  parallel_ranges(g.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_vector<AccumulatorOf<T>>(end - begin, [&](std::int64_t i, auto n) {
      auto slope = gelu_and_slope<T>(load_n(x + begin + i, n)).slope;
      store_n(dx + begin + i, decltype(slope)(load_n(dy + begin + i, n) * slope), n);
    });
  });
}

}  // namespace

void run(CpuQueue&, const GeluForward& g) {
  switch (g.dtype) {
    case DType::kBFloat16: return forward<bfloat16>(g);
    case DType::kFloat64: return forward<double>(g);
    default: return forward<float>(g);
  }
}

void run(CpuQueue&, const GeluBackward& g) {
  switch (g.dtype) {
    case DType::kBFloat16: return backward<bfloat16>(g);
    case DType::kFloat64: return backward<double>(g);
    default: return backward<float>(g);
  }
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(GeluForward)
DTN_DISPATCH(GeluBackward)
