// Dynamic Token Normalization with arbitrary position matrices: the formulas of dtn_norm.h with a
// given full matrix P[h] between the T' = T / pool^2 cells. With pool 1 the cells are the tokens.
#pragma once

#include <cstdint>

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

struct DtnDenseForward {
  DtnNormForward norm;    // pos_weight is not used
  const void* positions;  // [H, T', T'] P, accumulator type; rows sum to 1

  double multiply_adds() const { return 2 * norm.dense_product(); }
  double paper_multiply_adds() const { return norm.dense_product(); }
};
void run(CpuQueue&, const DtnDenseForward&);
void run(CudaQueue&, const DtnDenseForward&);

// Recomputes the moments M = P Z, Z = [x, x^2] of the cells minus the pivot. Then:
//    dZ = P^T dM,   dP = sum over images of dM Z^T
struct DtnDenseBackward {
  DtnNormBackward norm;        // pos_weight and dpos_weight are not used
  const void* positions;       // [H, T', T']
  void* dpositions = nullptr;  // [H, T', T'], written (=); null saves a third of the work

  double multiply_adds() const { return (dpositions ? 3 : 2) * 2 * norm.dense_product(); }
};
void run(CpuQueue&, const DtnDenseBackward&);
void run(CudaQueue&, const DtnDenseBackward&);

}  // namespace dtn
