// Weighted cross-entropy by rows; see weighted_cross_entropy.h for the formulas. The largest logit
// is subtracted before the exponential. The loss is a sum of terms of one sign, computed from the
// shifted logits, so that a common offset does not cost digits.
#include "kernels/loss/weighted_cross_entropy.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/loss/each_target.h"
#include "kernels/loss/focal_factor.h"
#include "kernels/loss/softmax_row.h"

namespace dtn::DTN_ISA {
namespace {

// Calls f(k, count, weight) for the vectors that cover a row, with the weights t w.
template <class A, class F>
inline void for_each_weight(const WeightedCrossEntropyInputs& in, std::int64_t row, F&& f) {
  const A* weights = static_cast<const A*>(in.class_weights);
  for_each_target<A>(in, row, in.classes, [&](std::int64_t k, auto count, Vec<A> target) {
    f(k, count, weights ? target * load_n(weights + k, count) : target);
  });
}

// Returns a part of the focal factor, lane by lane. Only a few weights of a row are not 0, unless
// labels are smoothed.
template <class A>
inline Vec<A> focal_of(A FocalFactor<A>::*part, Vec<A> n, Vec<A> weight, A gamma) {
  Vec<A> factor{};
  for (int i = 0; i < kLanes<A>; ++i) {
    if (weight[i] != A(0)) factor[i] = FocalFactor<A>::at(n[i], gamma).*part;
  }
  return factor;
}

template <class T>
void weighted_forward_row(const WeightedCrossEntropyForward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const T* z = static_cast<const T*>(args.logits) + row * args.classes;
  const A gamma = static_cast<A>(args.gamma);
  const A largest = row_max(z, args.classes);
  Vec<A> exps{}, sum{};
  for_each_vector<A>(args.classes, [&](std::int64_t k, auto count) {
    exps = exps + exp(load_or(z + k, count, -infinity_of<A>()) - largest);
  });
  const A log_sum = std::log(reduce_add(exps));
  for_each_weight<A>(args, row, [&](std::int64_t k, auto count, Vec<A> weight) {
    // The order of the operands keeps NaN.
    const Vec<A> n = max(Vec<A>{}, log_sum - (load_n(z + k, count) - largest));
    const Vec<A> term = gamma == 0 ? n : n * focal_of(&FocalFactor<A>::loss, n, weight, gamma);
    sum = sum + keep_n(product_or_zero(weight, term), count);
  });
  const bool valid = has_valid_labels<A>(args, row, args.classes) && log_sum == log_sum;
  static_cast<A*>(args.loss)[row] = valid ? reduce_add(sum) : static_cast<A>(__builtin_nan(""));
  static_cast<A*>(args.lse)[row] = largest + log_sum;
}

template <class T>
void weighted_backward_row(const WeightedCrossEntropyBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const T* z = static_cast<const T*>(args.logits) + row * args.classes;
  T* dz = static_cast<T*>(args.dlogits) + row * args.classes;
  const A gamma = static_cast<A>(args.gamma), lse = static_cast<const A*>(args.lse)[row];
  A scale = static_cast<A>(args.scale);
  if (args.upstream) scale *= *static_cast<const A*>(args.upstream);
  if (!has_valid_labels<A>(args, row, args.classes)) scale = static_cast<A>(__builtin_nan(""));
  const auto negative_log = [&](std::int64_t k, auto count) {
    return max(Vec<A>{}, lse - load_n(z + k, count));
  };
  const auto slope = [&](Vec<A> weight, Vec<A> n) {
    return gamma == 0 ? weight : weight * focal_of(&FocalFactor<A>::slope, n, weight, gamma);
  };
  Vec<A> sum{};
  for_each_weight<A>(args, row, [&](std::int64_t k, auto count, Vec<A> weight) {
    sum = sum + keep_n(slope(weight, negative_log(k, count)), count);
  });
  const A total = reduce_add(sum);
  for_each_weight<A>(args, row, [&](std::int64_t k, auto count, Vec<A> weight) {
    const Vec<A> n = negative_log(k, count);
    store_n(dz + k, scale * (exp(-n) * total - slope(weight, n)), count);
  });
}

// Calls f(row) with a type for all rows, in parallel.
template <class F>
void for_each_weighted_row(const char* kernel, const WeightedCrossEntropyInputs& in, F&& f) {
  for_dtype(kernel, in.dtype, [&](auto zero) {
    for_each_row(in.rows, std::max<std::int64_t>(in.classes, 1),
                 [&](std::int64_t row) { f(zero, row); });
  });
}

}  // namespace

void run(CpuQueue&, const WeightedCrossEntropyForward& args) {
  for_each_weighted_row("WeightedCrossEntropyForward", args, [&](auto zero, std::int64_t row) {
    weighted_forward_row<decltype(zero)>(args, row);
  });
}

void run(CpuQueue&, const WeightedCrossEntropyBackward& args) {
  for_each_weighted_row("WeightedCrossEntropyBackward", args, [&](auto zero, std::int64_t row) {
    weighted_backward_row<decltype(zero)>(args, row);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(WeightedCrossEntropyForward)
DTN_DISPATCH(WeightedCrossEntropyBackward)
