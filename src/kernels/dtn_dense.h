// Dynamic Token Normalization with any position matrix: the formulas of dtn_norm.h with P[h] a full
// matrix that is given, and with statistics across tokens that may be pooled.
//
// With pool = s > 1 (the paper's average pooling of the statistics): the values that the statistics
// across tokens see, x or what the official variant makes of it, are averaged over cells of s x s
// tokens, then squared; P is [T', T'] with T' = T / s^2 cells in raster order; every token of a
// cell has the m1 and v1 of its cell. mu_ln and var_ln stay those of the token.
#pragma once

#include <cstdint>

#include "kernels/dtn_norm.h"

namespace dtn {

struct DtnDenseForward {
  DtnNormForward norm;    // pos_weight is not used
  const void* positions;  // [H, T', T'] P, accumulator type; rows sum to 1
  std::int64_t pool = 1;  // s, divides grid_h and grid_w
};
void run(CpuQueue&, const DtnDenseForward&);
void run(CudaQueue&, const DtnDenseForward&);

// Recomputes the moments: M = P Z with Z = [x, x^2] of the cells less the pivot, dZ = P^T dM, and
//   dP = sum over images of dM Z^T.
struct DtnDenseBackward {
  DtnNormBackward norm;   // pos_weight and dpos_weight are not used
  const void* positions;  // [H, T', T']
  std::int64_t pool = 1;
  void* dpositions = nullptr;  // [H, T', T'], written (=); null saves a third of the work
};
void run(CpuQueue&, const DtnDenseBackward&);
void run(CudaQueue&, const DtnDenseBackward&);

}  // namespace dtn
