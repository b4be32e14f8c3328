// Activation functions on short vectors; see activation.h.
#include "kernels/pointwise/activation.h"

#include <type_traits>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/pointwise/gelu_tanh.h"
#include "kernels/pointwise/map_values.h"

namespace dtn::DTN_ISA {
namespace {

template <class V>
V sigmoid(V x) {
  return 1 / (1 + exp(-x));
}

// Each function has its value (x), and its gradient (x, dy).
struct Relu {
  template <class V>
  V operator()(V x) const {
    return max(V{}, x);  // this operand order keeps NaN
  }
  template <class V>
  V operator()(V x, V dy) const {
    return x <= 0 ? V{} : dy;
  }
};
struct Silu {
  template <class V>
  V operator()(V x) const {
    const V above = max(V{} - 100, x);  // avoids 0 * inf for an infinite x; keeps NaN
    return above * sigmoid(above);
  }
  template <class V>
  V operator()(V x, V dy) const {
    const V within = min(V{} + 100, max(V{} - 100, x));
    const V e = exp(-within);
    const V s = 1 / (1 + e);
    return dy * s * (1 + within * (e * s));  // e s is 1 - s without cancellation
  }
};
// x sigmoid(u(x)). Within +-limit the exponential does not overflow. Outside, the sigmoid no longer
// changes.
template <class Exponent>
struct Gated {
  template <class V>
  V operator()(V x) const {
    const V above = max(V{} - Exponent::kLimit, x);
    const V within = min(V{} + Exponent::kLimit, above);
    return above * sigmoid(Exponent::value(within));
  }
  template <class V>
  V operator()(V x, V dy) const {
    const V within = min(V{} + Exponent::kLimit, max(V{} - Exponent::kLimit, x));
    const V e = exp(-Exponent::value(within));
    const V s = 1 / (1 + e);
    return dy * s * (1 + within * Exponent::slope(within) * (e * s));
  }
};
struct QuickGeluExponent {
  static constexpr int kLimit = 52;
  template <class V>
  static V value(V x) {
    return slope(x) * x;
  }
  template <class V>
  static V slope(V) {
    return V{} + static_cast<std::remove_cvref_t<decltype(V{}[0])>>(kQuickGeluScale);
  }
};
struct Tanh {
  template <class V>
  V operator()(V x) const {
    return tanh(x);
  }
  template <class V>
  V operator()(V x, V dy) const {
    const V y = tanh(x);
    return dy * (1 - y) * (1 + y);
  }
};
struct Hardswish {
  // The factor 1 / 6 comes before the product, which could overflow. NaN passes through x.
  template <class V>
  V operator()(V x) const {
    const V above = max(V{} - 3, x);  // avoids 0 * inf for an infinite x
    return above * (min(V{} + 6, above + 3) * sixth<V>);
  }
  template <class V>
  V operator()(V x, V dy) const {
    const V within = dy * ((2 * x + 3) * sixth<V>);
    return x <= -3 ? V{} : x >= 3 ? dy : within;
  }
  template <class V>
  static constexpr auto sixth = static_cast<std::remove_cvref_t<decltype(V{}[0])>>(1.0 / 6);
};

template <class F>
void for_activation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::kRelu: return f(Relu{});
    case Activation::kSilu: return f(Silu{});
    case Activation::kTanh: return f(Tanh{});
    case Activation::kGeluTanh: return f(Gated<GeluTanhExponent>{});
    case Activation::kQuickGelu: return f(Gated<QuickGeluExponent>{});
    case Activation::kHardswish: return f(Hardswish{});
  }
}

}  // namespace

void run(CpuQueue&, const ActivationForward& args) {
  for_dtype("ActivationForward", args.dtype, [&](auto t) {
    for_activation(args.kind, [&](auto function) {
      map_values<decltype(t)>(args.count, function, args.y, args.x);
    });
  });
}

void run(CpuQueue&, const ActivationBackward& args) {
  for_dtype("ActivationBackward", args.dtype, [&](auto t) {
    for_activation(args.kind, [&](auto function) {
      map_values<decltype(t)>(args.count, function, args.dx, args.x, args.dy);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ActivationForward)
DTN_DISPATCH(ActivationBackward)
