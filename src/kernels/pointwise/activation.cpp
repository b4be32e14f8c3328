// Activation functions on short vectors; see activation.h.
#include "kernels/pointwise/activation.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector_math.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kChunk = 1 << 15;

template <class V>
V sigmoid(V x) {
  return 1 / (1 + exp(-x));
}

struct Relu {
  template <class V>
  static V value(V x) {
    return max(V{}, x);  // this order lets NaN through
  }
  template <class V>
  static V gradient(V x, V dy) {
    return x <= 0 ? V{} : dy;
  }
};
struct Silu {
  template <class V>
  static V value(V x) {
    const V above = max(V{} - 100, x);  // an infinite x meets no 0 inf; NaN goes through
    return above * sigmoid(above);
  }
  template <class V>
  static V gradient(V x, V dy) {
    const V within = min(V{} + 100, max(V{} - 100, x));
    const V e = exp(-within);
    const V s = 1 / (1 + e);
    return dy * s * (1 + within * (e * s));  // e s = 1 - s, to its last digit
  }
};
struct Tanh {
  template <class V>
  static V value(V x) {
    return tanh(x);
  }
  template <class V>
  static V gradient(V x, V dy) {
    const V y = tanh(x);
    return dy * (1 - y) * (1 + y);
  }
};

template <class F>
void for_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::kRelu: return f(Relu{});
    case Activation::kSilu: return f(Silu{});
    case Activation::kTanh: return f(Tanh{});
  }
}

}  // namespace

void run(CpuQueue&, const ActivationForward& args) {
  for_dtype("ActivationForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    for_activation(args.kind, [&](auto function) {
      const T* x = static_cast<const T*>(args.x);
      T* y = static_cast<T*>(args.y);
      parallel_ranges(args.count, kChunk, [=](std::int64_t begin, std::int64_t end) {
        for_each_vector<AccumulatorOf<T>>(end - begin, [=](std::int64_t i, auto count) {
          store_n(y + begin + i, function.value(load_n(x + begin + i, count)), count);
        });
      });
    });
  });
}

void run(CpuQueue&, const ActivationBackward& args) {
  for_dtype("ActivationBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    for_activation(args.kind, [&](auto function) {
      const T* x = static_cast<const T*>(args.x);
      const T* dy = static_cast<const T*>(args.dy);
      T* dx = static_cast<T*>(args.dx);
      parallel_ranges(args.count, kChunk, [=](std::int64_t begin, std::int64_t end) {
        for_each_vector<AccumulatorOf<T>>(end - begin, [=](std::int64_t i, auto count) {
          i += begin;
          store_n(dx + i, function.gradient(load_n(x + i, count), load_n(dy + i, count)), count);
        });
      });
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ActivationForward)
DTN_DISPATCH(ActivationBackward)
