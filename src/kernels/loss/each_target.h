// Targets of a row of logits, vector by vector on the CPU.
#pragma once

#include "kernels/cpu/vector_math.h"
#include "kernels/loss/class_targets.h"

namespace dtn::DTN_ISA {

// Returns a b, with 0 b = 0 even for infinite b.
template <class V>
inline V product_or_zero(V a, V b) {
  return a == LaneOf<V>(0) ? V{} : a * b;
}

// Returns a vector whose lane i is i.
template <class A>
inline Vec<A> lane_numbers() {
  Vec<A> v{};
  for (int i = 0; i < kLanes<A>; ++i) v[i] = static_cast<A>(i);
  return v;
}

// Calls f(k, count, targets) for the vectors that cover a row. `against` is ClassTargets or a class
// derived from it, which may binarize them.
template <class A, class Targets, class F>
inline void for_each_target(const Targets& against, std::int64_t row, std::int64_t classes, F&& f) {
  if (against.targets) {
    const A* t = static_cast<const A*>(against.targets) + row * classes;
    for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
      Vec<A> target = load_n(t + k, count);
      if constexpr (requires { against.binarize; }) {
        const Vec<A> threshold = broadcast(static_cast<A>(against.threshold));
        if (against.binarize) target = target > threshold ? broadcast(A(1)) : Vec<A>{};
      }
      f(k, count, target);
    });
    return;
  }
  const RowTargets<A> t = row_targets<A>(against, row, classes);
  const Vec<A> lanes = lane_numbers<A>(), elsewhere = broadcast(t.elsewhere);
  const Vec<A> at_own = broadcast(t.at_own), at_partner = broadcast(t.at_partner);
  for_each_vector<A>(classes, [&](std::int64_t k, auto count) {
    Vec<A> target = lanes == static_cast<A>(t.partner - k) ? at_partner : elsewhere;
    target = lanes == static_cast<A>(t.own - k) ? at_own : target;
    f(k, count, target);
  });
}

template <class A, class Targets>
bool has_valid_labels(const Targets& against, std::int64_t row, std::int64_t classes) {
  return against.targets || row_targets<A>(against, row, classes).valid;
}

}  // namespace dtn::DTN_ISA
