// Binary cross-entropy by rows; see binary_cross_entropy.h for the formulas. e = e^-|z| never
// overflows, and
//    softplus(z) = max(z, 0) + log(1 + e)
//    sigmoid(|z|) = 1 / (1 + e)
//    sigmoid(-|z|) = e / (1 + e)
// So neither loss nor gradient loses digits when a prediction is almost certain.
#include "kernels/loss/binary_cross_entropy.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/loss/each_target.h"

namespace dtn::DTN_ISA {
namespace {

template <class V>
inline V magnitude(V v) {
  return v < LaneOf<V>(0) ? -v : v;
}

// Returns the loss of logits z for targets t.
template <class V>
inline V loss_at(V z, V t) {
  using A = LaneOf<V>;
  const V zero{}, above = z > A(0) ? z : zero, below = z < A(0) ? -z : zero;
  return product_or_zero(t, below) + product_or_zero(A(1) - t, above) +
         log_1_plus(exp(-magnitude(z)));
}

template <class V>
inline V gradient_at(V z, V t) {
  using A = LaneOf<V>;
  const V e = exp(-magnitude(z));
  const V likely = A(1) / (A(1) + e), unlikely = e * likely;
  const V positive = z < A(0) ? unlikely : likely, negative = z < A(0) ? likely : unlikely;
  return (A(1) - t) * positive - t * negative;
}

template <class T>
void binary_forward_row(const BinaryCrossEntropyForward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  A* loss = static_cast<A*>(args.loss) + row;
  if (!has_valid_labels<A>(args.against, row, args.classes)) {
    *loss = static_cast<A>(__builtin_nan(""));
    return;
  }
  const T* z = static_cast<const T*>(args.logits) + row * args.classes;
  Vec<A> sum{};
  for_each_target<A>(args.against, row, args.classes,
                     [&](std::int64_t k, auto count, Vec<A> target) {
                       sum = sum + keep_n(loss_at(load_n(z + k, count), target), count);
                     });
  *loss = static_cast<A>(args.scale) * reduce_add(sum);
}

template <class T>
void binary_backward_row(const BinaryCrossEntropyBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const T* z = static_cast<const T*>(args.logits) + row * args.classes;
  T* dz = static_cast<T*>(args.dlogits) + row * args.classes;
  A scale = static_cast<A>(args.scale);
  if (args.upstream) scale *= *static_cast<const A*>(args.upstream);
  if (!has_valid_labels<A>(args.against, row, args.classes)) {
    scale = static_cast<A>(__builtin_nan(""));
  }
  for_each_target<A>(args.against, row, args.classes,
                     [&](std::int64_t k, auto count, Vec<A> target) {
                       store_n(dz + k, scale * gradient_at(load_n(z + k, count), target), count);
                     });
}

}  // namespace

void run(CpuQueue&, const BinaryCrossEntropyForward& args) {
  for_dtype("BinaryCrossEntropyForward", args.dtype, [&](auto t) {
    parallel_ranges(args.rows, row_grain(std::max<std::int64_t>(args.classes, 1)),
                    [&](std::int64_t row, std::int64_t end) {
                      for (; row < end; ++row) binary_forward_row<decltype(t)>(args, row);
                    });
  });
}

void run(CpuQueue&, const BinaryCrossEntropyBackward& args) {
  for_dtype("BinaryCrossEntropyBackward", args.dtype, [&](auto t) {
    parallel_ranges(args.rows, row_grain(std::max<std::int64_t>(args.classes, 1)),
                    [&](std::int64_t row, std::int64_t end) {
                      for (; row < end; ++row) binary_backward_row<decltype(t)>(args, row);
                    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(BinaryCrossEntropyForward)
DTN_DISPATCH(BinaryCrossEntropyBackward)
