// Dynamic Token Normalization of padded sequences: the formulas of dtn_norm.h on a grid of one row.
// The valid tokens of a sample are the first lengths[b] of its T tokens. They form a sequence of
// that length: P is a softmax over valid keys, the pivot is a mean over valid tokens. Padding is
// not read, so it may hold any values; y and dx are 0 there. All results of a sample depend on its
// valid tokens alone, bit for bit, and not on the amount of padding. Exception: on CUDA devices the
// gradients of parameters are sums over tokens whose order depends on T.
//
// With d = j - i (kOfficial: a_x negated) and L valid tokens:
//    w(d) = exp(a_d d^2 + a_x d)
//    P[i, j] = w(j - i) / sum of w(k - i) over k < L
// P is a Toeplitz matrix except for the sums of its rows. Each row is scaled so that its largest
// weight is 1. Weights below 1e-9 (float64: 1e-18) are then left out. Three cases:
//   a_d < 0   A window around i + delta, delta = -a_x / (2 a_d). If c = round(i + delta) is inside
//             the sequence, the row uses the table of w(d) / w(c - i) that all these rows share.
//             Only the sums of rows differ, near the ends. If i + delta is beyond an end, c is that
//             end and the row has its own weights, exp((j - c) (a_d (j + c - 2 i) + a_x)). This
//             form avoids cancellation.
//   a_d = 0   P[i, j] does not depend on i: one weighted mean per sample.
//   a_d > 0   The weights are largest at the ends of the sequence, above all at the farther end. c
//             is the end with the larger weight. The window holds the tokens whose weights are not
//             left out, at one end or at both.
// A window is never wider than the sequence, so the cost of a row is at most L tokens. No whole
// matrix is stored: rows with their own weights are computed one tile of rows at a time.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

// Weights below this fraction of the largest weight of their row are left out.
inline double dtn_sequence_least_weight(DType accumulator) {
  return accumulator == DType::kFloat64 ? 1e-18 : 1e-9;
}

// Half-width of the window for a_d < 0, at most `most`.
inline std::int64_t dtn_sequence_radius(double a_d, double least_weight, std::int64_t most) {
  const double radius = std::ceil(std::sqrt(std::log(least_weight) / a_d)) + 1;
  return radius < static_cast<double>(most) ? static_cast<std::int64_t>(radius) : most;
}

// Approximate number of tokens that a row of a sequence of n tokens reads; for operation counts.
inline double dtn_sequence_taps(double a_d, std::int64_t n) {
  const double least = dtn_sequence_least_weight(DType::kFloat32);
  const std::int64_t taps =
      a_d < 0   ? 2 * dtn_sequence_radius(a_d, least, n) + 1
      : a_d > 0 ? static_cast<std::int64_t>(-std::log(least) / (a_d * static_cast<double>(n))) + 1
                : 1;
  return static_cast<double>(taps < n ? taps : n);
}

struct DtnSequenceForward {
  DtnNormForward norm;                    // grid_h = 1, pool = 1; undefined statistics for padding
  const std::int64_t* lengths = nullptr;  // [B], 0 <= lengths[b] <= T; null: all tokens are valid
  double taps = 1;                        // mean of dtn_sequence_taps() over heads; for counts only

  double multiply_adds() const {  // for x and x^2
    return 2 * taps * static_cast<double>(norm.batch * norm.elements());
  }
  double paper_multiply_adds() const { return norm.dense_product(); }
};
void run(CpuQueue&, const DtnSequenceForward&);
void run(CudaQueue&, const DtnSequenceForward&);

// Recomputes the moments, applies the transposed windows, and sums the gradient of P by offset:
//    G[d] = sum over i of  P[i, i+d] (dP[i, i+d] - sum_k P[i, k] dP[i, k])
//    da_x = sum d G[d],   da_d = sum d^2 G[d]
// The a_y column of dpos_weight does not change.
struct DtnSequenceBackward {
  DtnNormBackward norm;  // statistics from the forward pass
  const std::int64_t* lengths = nullptr;
  double taps = 1;

  double multiply_adds() const {
    return (norm.dpos_weight ? 3 : 2) * 2 * taps *
           static_cast<double>(norm.batch * norm.elements());
  }
};
void run(CpuQueue&, const DtnSequenceBackward&);
void run(CudaQueue&, const DtnSequenceBackward&);

}  // namespace dtn
