// Cross-entropy by rows; see cross_entropy.h for the formulas. The largest logit is subtracted
// before the exponential. The loss is computed from the shifted logits, so that a common offset
// does not cost digits.
#include "kernels/loss/cross_entropy.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/loss/softmax_row.h"

namespace dtn::DTN_ISA {
namespace {

// Returns the sum of t (z - shift). Terms with t = 0 are 0, even if z = -inf.
template <class T>
AccumulatorOf<T> dot_shifted(const AccumulatorOf<T>* t, const T* z, AccumulatorOf<T> shift,
                             std::int64_t classes) {
  using A = AccumulatorOf<T>;
  Vec<A> sum{};
  for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
    Vec<A> weight = load_n(t + k, count);
    Vec<A> term = weight * (load_n(z + k, count) - shift);
    sum = sum + (weight == A(0) ? Vec<A>{} : term);
  });
  return reduce_add(sum);
}

template <class A>
A row_sum(const A* t, std::int64_t classes) {
  Vec<A> sum{};
  for_each_vector<A>(classes,
                     [&](std::int64_t k, auto count) { sum = sum + load_n(t + k, count); });
  return reduce_add(sum);
}

// Labels of a row.
struct RowLabels {
  std::int64_t own, partner;  // equal if there is only one label
  float share;                // of `own`
  bool valid;                 // both in [0, K)
};
RowLabels row_labels(const ClassTargets& t, std::int64_t row, std::int64_t classes) {
  RowLabels l{t.labels[row], t.labels[row], 1, false};
  if (t.partner_labels) l.partner = t.partner_labels[row];
  if (l.partner != l.own) l.share = t.label_share[row];
  l.valid = l.own >= 0 && l.own < classes && l.partner >= 0 && l.partner < classes;
  return l;
}

// Returns the mean of the shifted logits at the labels, weighted by the shares. A share of 0 gives
// a term of 0, even if the logit is -inf.
template <class A, class T>
A at_labels(const RowLabels& labels, const T* z, A shift) {
  const A own = static_cast<A>(z[labels.own]) - shift;
  if (labels.share == 1) return own;
  const A partner = static_cast<A>(z[labels.partner]) - shift;
  if (labels.share == 0) return partner;
  const A share = static_cast<A>(labels.share);
  return share * own + (1 - share) * partner;
}

template <class T>
void forward_row(const CrossEntropyForward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t classes = args.classes;
  const T* z = static_cast<const T*>(args.logits) + row * classes;
  // The maximum may lose a NaN; exp below restores it.
  const A largest = row_max(z, classes);
  Vec<A> exps{}, shifted{};
  const bool smooth = args.smoothing != 0;
  for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
    Vec<A> v = load_or(z + k, count, -infinity_of<A>()) - largest;
    exps = exps + exp(v);
    if (smooth) shifted = shifted + (load_or(z + k, count, largest) - largest);
  });
  const A log_sum = std::log(reduce_add(exps));
  A loss;
  if (args.targets) {
    const A* t = static_cast<const A*>(args.targets) + row * classes;
    loss = log_sum * row_sum(t, classes) - dot_shifted(t, z, largest, classes);
  } else if (const auto labels = row_labels(args, row, classes); labels.valid) {
    const A s = static_cast<A>(args.smoothing);
    const A at_label = at_labels(labels, z, largest);
    loss = smooth ? log_sum - (1 - s) * at_label - s / static_cast<A>(classes) * reduce_add(shifted)
                  : log_sum - at_label;
  } else {
    loss = static_cast<A>(__builtin_nan(""));
  }
  static_cast<A*>(args.loss)[row] = loss;
  static_cast<A*>(args.lse)[row] = largest + log_sum;
}

template <class A>
A scale_of(const CrossEntropyBackward& args) {
  const A scale = static_cast<A>(args.scale);
  return args.upstream ? scale * *static_cast<const A*>(args.upstream) : scale;
}

// Gradient for soft targets: dz = scale (softmax weight - t), where weight is the sum of t.
template <class T>
void backward_targets(const CrossEntropyBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t classes = args.classes;
  const T* z = static_cast<const T*>(args.logits) + row * classes;
  const A* t = static_cast<const A*>(args.targets) + row * classes;
  T* dz = static_cast<T*>(args.dlogits) + row * classes;
  const A lse = static_cast<const A*>(args.lse)[row];
  const A scale = scale_of<A>(args), weight = row_sum(t, classes);
  for_each_vector<A>(classes, [=](std::int64_t k, auto count) {
    Vec<A> p = exp(load_n(z + k, count) - lse);
    store_n(dz + k, scale * (p * weight - load_n(t + k, count)), count);
  });
}

template <class T>
void backward_label(const CrossEntropyBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t classes = args.classes;
  const T* z = static_cast<const T*>(args.logits) + row * classes;
  T* dz = static_cast<T*>(args.dlogits) + row * classes;
  const RowLabels labels = row_labels(args, row, classes);
  const A scale = labels.valid ? scale_of<A>(args) : static_cast<A>(__builtin_nan(""));
  const A lse = static_cast<const A*>(args.lse)[row];
  const A s = static_cast<A>(args.smoothing), everywhere = s / static_cast<A>(classes);
  // Read before the row is overwritten: dz may be z.
  const A z_own = labels.valid ? static_cast<A>(z[labels.own]) : A(0);
  const A z_partner = labels.valid ? static_cast<A>(z[labels.partner]) : A(0);
  for_each_vector<A>(classes, [=](std::int64_t k, auto count) {
    Vec<A> p = exp(load_n(z + k, count) - lse);
    store_n(dz + k, scale * (p - everywhere), count);
  });
  if (!labels.valid) return;
  auto put = [=](std::int64_t label, A logit, A hot) {
    dz[label] = static_cast<T>(scale * (std::exp(logit - lse) - everywhere - hot));
  };
  const A share = static_cast<A>(labels.share);
  if (share != 0) put(labels.own, z_own, (1 - s) * share);
  if (share != 1) put(labels.partner, z_partner, (1 - s) * (1 - share));
}

}  // namespace

void run(CpuQueue&, const CrossEntropyForward& args) {
  for_dtype("CrossEntropyForward", args.dtype, [&](auto t) {
    parallel_ranges(args.rows, row_grain(std::max<std::int64_t>(args.classes, 1)),
                    [&](std::int64_t row, std::int64_t end) {
                      for (; row < end; ++row) forward_row<decltype(t)>(args, row);
                    });
  });
}

void run(CpuQueue&, const CrossEntropyBackward& args) {
  for_dtype("CrossEntropyBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_ranges(args.rows, row_grain(std::max<std::int64_t>(args.classes, 1)),
                    [&](std::int64_t row, std::int64_t end) {
                      for (; row < end; ++row) {
                        args.targets ? backward_targets<T>(args, row)
                                     : backward_label<T>(args, row);
                      }
                    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(CrossEntropyForward)
DTN_DISPATCH(CrossEntropyBackward)
