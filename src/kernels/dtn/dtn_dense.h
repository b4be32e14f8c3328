// Dynamic Token Normalization with any position matrix: the formulas of dtn_norm.h with P[h] a full
// matrix that is given, between the T' = T / pool^2 cells that the statistics across tokens see.
#pragma once

#include <cstdint>

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

struct DtnDenseForward {
  DtnNormForward norm;    // pos_weight is not used
  const void* positions;  // [H, T', T'] P, accumulator type; rows sum to 1

  double multiply_adds() const { return 2 * dense_dtn_product(norm); }
  double paper_multiply_adds() const { return dense_dtn_product(norm); }
};
void run(CpuQueue&, const DtnDenseForward&);
void run(CudaQueue&, const DtnDenseForward&);

// Recomputes the moments: M = P Z with Z = [x, x^2] of the cells less the pivot, dZ = P^T dM, and
//   dP = sum over images of dM Z^T.
struct DtnDenseBackward {
  DtnNormBackward norm;        // pos_weight and dpos_weight are not used
  const void* positions;       // [H, T', T']
  void* dpositions = nullptr;  // [H, T', T'], written (=); null saves a third of the work

  double multiply_adds() const { return (dpositions ? 3 : 2) * 2 * dense_dtn_product(norm); }
};
void run(CpuQueue&, const DtnDenseBackward&);
void run(CudaQueue&, const DtnDenseBackward&);

}  // namespace dtn
