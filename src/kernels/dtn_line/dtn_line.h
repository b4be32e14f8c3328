// Dynamic Token Normalization of padded sequences: the formulas of dtn_norm.h on a line, a grid of
// one row, where the valid tokens of a sample are the first lengths[b] of its T. They are a line of
// their own: P is a softmax over valid keys, the pivot a mean over valid tokens. Pads are not read,
// whatever they hold; y and dx are 0 there. What a sample gives depends on its valid tokens alone,
// to the bit, however many pads follow; on CUDA devices but for sums over tokens, the gradients of
// parameters, whose order depends on T.
//
// With d = j - i (kOfficial: a_x turned round), w(d) = exp(a_d d^2 + a_x d) and L valid tokens,
//   P[i, j] = w(j - i) / sum of w(k - i) over k < L
// so P is Toeplitz up to the sums of its rows. Weights are made relative to the largest of their
// row, which is 1, and those below 1e-9 of it (float64: 1e-18) are left out:
//   a_d < 0   A window around i + delta, delta = -a_x / (2 a_d). With c = round(i + delta) in the
//             line, all rows share one table of w(d) / w(c - i), and have their own sums near the
//             ends. Where i + delta lies beyond an end, c is that end and the row has its own
//             weights, exp((j - c) (a_d (j + c - 2 i) + a_x)), which do not cancel.
//   a_d = 0   P[i, j] does not depend on i: one weighted mean for a sample.
//   a_d > 0   Rows lean on the ends, the far one foremost: c is the end of larger weight, and the
//             window is what reaches the least weight, at one end or at both.
// A window that is wider than the line is cut to it, so that no row costs more than the line has
// tokens, and no matrix is ever whole: own weights are made for a tile of rows at a time.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

// Weights below this share of the largest of their row are left out.
inline double dtn_line_least_weight(DType accumulator) {
  return accumulator == DType::kFloat64 ? 1e-18 : 1e-9;
}

// How far a window of square weight a_d < 0 goes to either side of its middle; `most` or less.
inline std::int64_t dtn_line_radius(double a_d, double least_weight, std::int64_t most) {
  const double radius = std::ceil(std::sqrt(std::log(least_weight) / a_d)) + 1;
  return radius < static_cast<double>(most) ? static_cast<std::int64_t>(radius) : most;
}

// How many tokens of a line of n a row looks at, near enough, for those who count operations.
inline double dtn_line_taps(double a_d, std::int64_t n) {
  const double least = dtn_line_least_weight(DType::kFloat32);
  const std::int64_t taps =
      a_d < 0   ? 2 * dtn_line_radius(a_d, least, n) + 1
      : a_d > 0 ? static_cast<std::int64_t>(-std::log(least) / (a_d * static_cast<double>(n))) + 1
                : 1;
  return static_cast<double>(taps < n ? taps : n);
}

struct DtnLineForward {
  DtnNormForward norm;                    // grid_h 1, pool 1; statistics of pads mean nothing
  const std::int64_t* lengths = nullptr;  // [B], 0 <= lengths[b] <= T; null: all are valid
  double taps = 1;                        // see dtn_line_taps(), mean of the heads; only counted

  double multiply_adds() const { return 2 * taps * line_elements(norm); }  // of x and of x^2
  double paper_multiply_adds() const { return dense_dtn_product(norm); }

  template <class Arguments>
  static double line_elements(const Arguments& a) {
    return static_cast<double>(a.batch * a.grid_w * a.channels);
  }
};
void run(CpuQueue&, const DtnLineForward&);
void run(CudaQueue&, const DtnLineForward&);

// Recomputes the moments, goes back through the windows, and sums the gradient of P by offset:
//   G[d] = sum over i of  P[i, i+d] (dP[i, i+d] - sum_k P[i, k] dP[i, k])
//   da_x = sum d G[d],   da_d = sum d^2 G[d]
// The column of y in dpos_weight is left alone.
struct DtnLineBackward {
  DtnNormBackward norm;  // statistics as the forward pass left them
  const std::int64_t* lengths = nullptr;
  double taps = 1;

  double multiply_adds() const {
    return (norm.dpos_weight ? 3 : 2) * 2 * taps * DtnLineForward::line_elements(norm);
  }
};
void run(CpuQueue&, const DtnLineBackward&);
void run(CudaQueue&, const DtnLineBackward&);

}  // namespace dtn
