// Position matrices P of Dynamic Token Normalization as full matrices, one per head. They are for
// the kinds whose P is not a product of two small matrices. dtn_norm.h has the separable P;
// dtn_dense.h uses the full matrices. With tokens i, j of a grid:
//   kRelative  P[i, j] = softmax over j of  a_d (dx^2 + dy^2) + a_x dx + a_y dy, as in dtn_norm.h
//   kTable     P[i, j] = softmax over j of  table[i, j]
//   kBanded    P[i, j] = 1 / n_i if |i - j| <= (band - 1) / 2, else 0; n_i is the number of nonzero
//              entries of row i. A band of 2 T - 1 makes all entries 1 / T.
// Rows sum to 1. P, weights and gradients have the accumulator type.
#pragma once

#include <cstdint>

#include "kernels/dtn/dtn_norm.h"

namespace dtn {

enum class DtnPositionKind : std::uint8_t { kRelative, kTable, kBanded };

struct DtnDensePositions {
  DType dtype;                         // float32; float64 on the CPU
  std::int64_t heads, grid_h, grid_w;  // H, T = grid_h grid_w
  DtnPositionKind kind;
  DtnVariant variant = DtnVariant::kPaper;  // kRelative: the direction of dx, dy
  std::int64_t band = 1;                    // kBanded: odd
  const void* weight = nullptr;             // kRelative [H, 3], columns a_x, a_y, a_d;
                                            // kTable [H, T, T]
  void* p;                                  // [H, T, T], written (=)

  // Returns arguments of a norm without images, from which the factors of kRelative are made.
  DtnNormArguments norm() const {
    DtnNormArguments norm{};
    norm.dtype = dtype;
    norm.grid_h = grid_h;
    norm.grid_w = grid_w;
    norm.channels = norm.heads = heads;
    norm.variant = variant;
    norm.pos_weight = weight;
    return norm;
  }
};
void run(CpuQueue&, const DtnDensePositions&);
void run(CudaQueue&, const DtnDensePositions&);

// With dscore the gradient of the exponent, or of the table entry:
//    dscore[i, j] = P[i, j] (dP[i, j] - sum_j P[i, j] dP[i, j])
//    dtable[i, j] += dscore[i, j];   da_x += sum_ij dx dscore[i, j],   da_y and da_d likewise
// kBanded has no parameters: do not ask for its gradient.
struct DtnDensePositionsBackward : DtnDensePositions {  // p is not written
  const void* dp;                                       // [H, T, T]
  void* dweight;                                        // as weight, +=
};
void run(CpuQueue&, const DtnDensePositionsBackward&);
void run(CudaQueue&, const DtnDensePositionsBackward&);

}  // namespace dtn
