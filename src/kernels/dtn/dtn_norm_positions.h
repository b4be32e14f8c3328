// Position matrices of DTN along one axis of the grid, and the factors for their gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/simd.h"
#include "kernels/dtn/dtn_norm_passes.h"

namespace dtn::DTN_ISA {

// With d = j - i, or d = i - j for the opposite direction:
//    p[i, j] = softmax over j of  square_weight d^2 + offset_weight d          i, j < n
// For a function of P, the softmax backward gives the gradient with respect to offset_weight:
//    by_offset[i, j] = p[i, j] (d - sum_j p[i, j] d)
//    sum_ij by_offset[i, j] dP[i, j]
// by_square is the same with d^2.
//
// In float32 the passes read only the weights that kMinWeight does not remove.
template <class A>
struct PositionMatrices {
  A *apply, *apply_transposed;  // P and its transpose, in the order in which `pass` reads them
  A *by_offset, *by_square;     // [n, n]; null if no gradient is needed
  A* row;                       // [n], workspace
  Span* reads;                  // [n]: inputs that each block of P reads
  Span* reads_transposed;       // [n]: the same for the transpose
  Span* seen;                   // [n]: nonzero part of each row of P
  std::int64_t* block;          // outputs per block of a pass

  PassMatrix<A> forward() const { return {apply, *block, reads}; }
  PassMatrix<A> transposed() const { return {apply_transposed, *block, reads_transposed}; }
  PositionWeights<A> weights() const { return {by_offset, by_square, seen}; }
};

// Returns the vector 0, 1, ..., kLanes - 1.
template <class A>
inline Vec<A> lane_indices() {
  A lanes[kLanes<A>];
  for (int i = 0; i < kLanes<A>; ++i) lanes[i] = static_cast<A>(i);
  return load(lanes);
}

// Returns the integer d between `from` and `to` (in either order) that maximizes
//    square_weight d^2 + offset_weight d
template <class A>
A best_offset(A from, A to, A square_weight, A offset_weight) {
  const A low = from < to ? from : to, high = from < to ? to : from;
  if (square_weight < 0) {
    const A top = offset_weight / (-2 * square_weight);
    if (!(top > low)) return low;
    if (top > high) return high;
    return low + static_cast<A>(static_cast<std::int64_t>(top - low + A(0.5)));
  }
  const A at_high =
      square_weight * (low + high) + offset_weight;  // (value at high - at low) / (high - low)
  return at_high > 0 ? high : low;
}

// Sets weights below the smallest normal number to 0. Products with them would be denormal or slow,
// and their contribution to a sum is far below its rounding.
template <class A, class V>
inline V normal_or_zero(V weights) {
  return weights < std::numeric_limits<A>::min() ? V{} : weights;
}

// Output block size of a pass, from the width of a row of P. It is smaller for narrow rows, which
// need square_weight < 0.
template <class A>
std::int64_t pass_block(std::int64_t n, A square_weight) {
  if (!std::is_same_v<A, float> || n <= kWholeAxis || !(square_weight < 0)) return kPassBlock;
  const double width = 2 * std::sqrt(std::log(double{kMinWeight}) / double{square_weight});
  return 3 * width < static_cast<double>(n) ? kNarrowBlock : kPassBlock;
}

// Returns the span from the first to the last nonzero weight of a row; NaN counts as nonzero.
template <class A>
Span places_of(const A* row, std::int64_t n) {
  Span seen{0, n};
  while (seen.begin < n && row[seen.begin] == 0) ++seen.begin;
  while (seen.end > seen.begin && row[seen.end - 1] == 0) --seen.end;
  return seen;
}

// Finds the inputs that each block of outputs reads, for P and its transpose, from `seen`.
template <class A>
void find_reads(std::int64_t n, const PositionMatrices<A>& m) {
  std::int64_t block = 0;
  for_each_pass_block(n, *m.block, [&](std::int64_t first, std::int64_t size) {
    Span inputs{n, 0}, outputs{n, 0};
    for (std::int64_t i = 0; i < n; ++i) {
      const Span seen = m.seen[i];
      if (first <= i && i < first + size) {
        inputs = {std::min(inputs.begin, seen.begin), std::max(inputs.end, seen.end)};
      }
      if (seen.begin < first + size && first < seen.end) {
        outputs = {std::min(outputs.begin, i), std::max(outputs.end, i + 1)};
      }
    }
    m.reads[block] = inputs.begin < inputs.end ? inputs : Span{0, 0};
    m.reads_transposed[block] = outputs.begin < outputs.end ? outputs : Span{0, 0};
    ++block;
  });
}

template <class A>
void build_positions(std::int64_t n, A square_weight, A offset_weight, A direction,
                     const PositionMatrices<A>& m) {
  const Vec<A> iota = lane_indices<A>();
  const bool windowed = std::is_same_v<A, float> && n > kWholeAxis;
  *m.block = pass_block(n, square_weight);
  for (std::int64_t i = 0; i < n; ++i) {
    A* row = m.row;
    // With t = d - best,
    //    exponent - its maximum = t (square_weight (2 best + t) + offset_weight)
    //    d^2 - its mean = 2 best t + t^2 - the mean of that
    // Both keep their digits if the exponent is large or the largest weights are far from i.
    const A best =
        best_offset((0 - i) * direction, (n - 1 - i) * direction, square_weight, offset_weight);
    auto shifted = [&](std::int64_t j) {
      return (iota + static_cast<A>(j - i)) * direction - best;
    };
    Vec<A> sum{};
    for_each_vector<A>(n, [&](std::int64_t j, auto count) {
      Vec<A> t = shifted(j);
      Vec<A> e = exp(t * (square_weight * (2 * best + t) + offset_weight));
      if (windowed) e = e < static_cast<A>(kMinWeight) ? Vec<A>{} : e;
      store_n(row + j, e, count);
      sum += keep_n(e, count);
    });
    const A scale = 1 / reduce_add(sum);
    Vec<A> first{}, second{};
    for_each_vector<A>(n, [&](std::int64_t j, auto count) {
      Vec<A> p = normal_or_zero<A>(load_n(row + j, count) * scale), t = shifted(j);
      store_n(row + j, p, count);
      first += p * t;
      second += p * t * t;
    });
    m.seen[i] = places_of(row, n);
    for_each_pass_block(n, *m.block, [&](std::int64_t first_output, std::int64_t size) {
      const std::int64_t block = first_output * n, output = i - first_output;
      if (output >= 0 && output < size) {
        for (std::int64_t j = 0; j < n; ++j) m.apply[block + j * size + output] = row[j];
      }
      for (std::int64_t k = 0; k < size; ++k) {
        m.apply_transposed[block + i * size + k] = row[first_output + k];
      }
    });
    if (!m.by_offset) continue;
    const A mean = reduce_add(first), mean_square = reduce_add(second);
    for_each_vector<A>(n, [&](std::int64_t j, auto count) {
      Vec<A> p = load_n(row + j, count), t = shifted(j);
      store_n(m.by_offset + i * n + j, p * (t - mean), count);
      store_n(m.by_square + i * n + j, p * (2 * best * (t - mean) + (t * t - mean_square)), count);
    });
  }
  find_reads(n, m);
}

}  // namespace dtn::DTN_ISA
