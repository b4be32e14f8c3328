#include "kernels/gemm/linear_epilogue.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/pointwise/gelu.h"
#include "kernels/pointwise/gelu_tanh.h"

namespace dtn::DTN_ISA {
namespace {

// Returns v rounded to storage type T.
template <class T, class V>
V rounded(V v) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    bfloat16 lanes[kLanes<float>];
    store(lanes, v);
    return load(lanes);
  } else {
    return v;
  }
}

// Prefetch distance. A tile is a narrow part of much longer rows, which the hardware does not
// prefetch.
constexpr std::int64_t kRowsAhead = 3;

enum class Then { kStore, kGelu, kGeluTanh, kScaleAdd };

template <class T, Then kThen>
void finish(const LinearEpilogue& e) {
  using A = AccumulatorOf<T>;
  const A* bias = static_cast<const A*>(e.bias);
  const A* row_scale = static_cast<const A*>(e.row_scale);
  for (std::int64_t r = 0; r < e.rows; ++r) {
    const A* product = static_cast<const A*>(e.product) + r * e.ld_product;
    T* y = static_cast<T*>(e.y) + r * e.ld;
    T* kept = e.preactivation ? static_cast<T*>(e.preactivation) + r * e.ld : nullptr;
    const T* residual = e.residual ? static_cast<const T*>(e.residual) + r * e.ld : nullptr;
    std::int64_t ahead = r + kRowsAhead < e.rows ? kRowsAhead * e.ld : 0;
    A scale = row_scale ? row_scale[(e.first_row + r) / e.rows_per_scale] : A(1);
    for_each_vector<A>(e.cols, [&](std::int64_t c, auto n) {
      __builtin_prefetch(y + ahead + c, 1);
      if (kept) __builtin_prefetch(kept + ahead + c, 1);
      if (residual) __builtin_prefetch(residual + ahead + c);
      Vec<A> z = load_n(product + c, n);
      if (bias) z += load_n(bias + c, n);
      if constexpr (kThen == Then::kGelu || kThen == Then::kGeluTanh) {
        // The backward pass must read exactly the value that is activated here.
        z = rounded<T>(z);
        if (kept) store_n(kept + c, z, n);
        z = kThen == Then::kGelu ? gelu<T>(z) : gelu_tanh_and_slope<T>(z).value;
      } else if constexpr (kThen == Then::kScaleAdd) {
        z *= scale;
        if (residual) z += load_n(residual + c, n);
      }
      store_n(y + c, z, n);
    });
  }
}

template <class T>
void finish(const LinearEpilogue& e) {
  if (e.gelu) return e.gelu_tanh ? finish<T, Then::kGeluTanh>(e) : finish<T, Then::kGelu>(e);
  if (e.residual || e.row_scale) return finish<T, Then::kScaleAdd>(e);
  finish<T, Then::kStore>(e);
}

template <class T, bool kTanh>
void gelu_gradient(const LinearGeluGradient& g) {
  using A = AccumulatorOf<T>;
  for (std::int64_t r = 0; r < g.rows; ++r) {
    const A* product = static_cast<const A*>(g.product) + r * g.ld_product;
    const T* z = static_cast<const T*>(g.z) + r * g.ld;
    T* dx = static_cast<T*>(g.dx) + r * g.ld;
    T* activation = g.activation ? static_cast<T*>(g.activation) + r * g.ld : nullptr;
    std::int64_t ahead = r + kRowsAhead < g.rows ? kRowsAhead * g.ld : 0;
    for_each_vector<A>(g.cols, [&](std::int64_t c, auto n) {
      __builtin_prefetch(z + ahead + c);
      __builtin_prefetch(dx + ahead + c, 1);
      if (activation) __builtin_prefetch(activation + ahead + c, 1);
      const Vec<A> at = load_n(z + c, n);
      const auto both = kTanh ? gelu_tanh_and_slope<T>(at) : gelu_and_slope<T>(at);
      if (activation) store_n(activation + c, both.value, n);
      store_n(dx + c, Vec<A>(load_n(product + c, n) * both.slope), n);
    });
  }
}

}  // namespace

void run(CpuQueue&, const LinearEpilogue& e) {
  for_dtype("LinearEpilogue", e.dtype, [&](auto t) { finish<decltype(t)>(e); });
}

void run(CpuQueue&, const LinearGeluGradient& g) {
  for_dtype("LinearGeluGradient", g.dtype, [&](auto t) {
    using T = decltype(t);
    g.gelu_tanh ? gelu_gradient<T, true>(g) : gelu_gradient<T, false>(g);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(LinearEpilogue)
DTN_DISPATCH(LinearGeluGradient)
