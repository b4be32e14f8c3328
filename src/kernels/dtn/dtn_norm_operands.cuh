// Operand words of P for bfloat16 problems: the words that each lane passes to products, by head.
//
// The prepare kernel writes them once. The backward kernel with 12 warps loads them at each use,
// because in registers they would take 34 of the 168 of a lane. An operand is one or two 16-byte
// vectors per lane, in the order in which products take their registers:
//    left order   v[0][0], v[1][0], v[0][1], v[1][1] of Bits8
//                 v[i][0], v[i][2], v[i][1], v[i][3] of Bits11, one vector for each i
//    right order  v[0][0], v[0][1], v[1][0], v[1][1] of Bits8
#pragma once

#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_tensor.cuh"

namespace dtn::tensor {

// Indices of the vectors of a head. Each vector is [kWarpSize].
enum OperandVector {
  kRowsHigh = 0,  // P along the rows, Bits16, left order
  kRowsLow = 1,
  kColumnsHigh = 2,  // P down the columns, likewise
  kColumnsLow = 3,
  kRowsRight = 4,  // P along the rows, Bits8, right order
  kColumnsRight = 5,
  kRowsTransposed = 6,     // and 7: the transpose of P along the rows, Bits11, left order
  kColumnsTransposed = 8,  // and 9
  kRowSums = 10,           // sums of rows g and g + 8 of the rounded P along the rows
  kOperandVectors = 11
};
inline constexpr int kOperandWords = kOperandVectors * cuda::kWarpSize * 4;  // per head

// Writes row i of P along one axis. All lanes of a warp call it. v is element (i, lane), or 0
// outside of the matrix.
__device__ __forceinline__ void store_operand_row(uint4* of_head, bool along_rows, int i, float v) {
  const int lane = lane_index(), j = lane;
  auto word = [&](int vector, int of_lane, int k) -> unsigned& {
    return reinterpret_cast<unsigned*>(of_head + vector * cuda::kWarpSize + of_lane)[k];
  };
  const float high = cuda::low_bfloat16(cuda::pack_bfloat16(v, 0));
  const float low = v - high;
  const float next_high = __shfl_down_sync(cuda::kWholeWarp, high, 1);
  const float next_low = __shfl_down_sync(cuda::kWholeWarp, low, 1);
  const float sum = cuda::warp_sum(high + cuda::low_bfloat16(cuda::pack_bfloat16(low, 0)));
  if (along_rows && lane < 4) word(kRowSums, i % 8 * 4 + lane, i / 8) = __float_as_uint(sum);
  if (j >= kSide) return;
  if (j % 2 == 0) {
    const int owner = i % 8 * 4 + j % 8 / 2, left = i / 8 + 2 * (j / 8),
              right = 2 * (i / 8) + j / 8;
    const unsigned pair = cuda::pack_bfloat16(high, next_high);
    word(along_rows ? kRowsHigh : kColumnsHigh, owner, left) = pair;
    word(along_rows ? kRowsRight : kColumnsRight, owner, right) = pair;
    word(along_rows ? kRowsLow : kColumnsLow, owner, left) = cuda::pack_bfloat16(low, next_low);
  }
  const int owner = j % 8 * 4 + i % 8 / 2;
  word((along_rows ? kRowsTransposed : kColumnsTransposed) + i / 8, owner, j / 8 + 2 * (i % 2)) =
      cuda::to_tf32(v);
}

// Operands of one head for a lane, loaded at each call.
class PreparedOperands {
 public:
  PreparedOperands() = default;
  __device__ __forceinline__ PreparedOperands(const uint4* operands, int head)
      : words_(operands + head * kOperandVectors * cuda::kWarpSize + lane_index()) {}

  __device__ __forceinline__ MomentPasses<bfloat16> moments() const {
    MomentPasses<bfloat16> m;
    m.p = {{left(kRowsHigh), left(kRowsLow)}, {left(kColumnsHigh), left(kColumnsLow)}};
    const float2 sums = *reinterpret_cast<const float2*>(words_ + kRowSums * cuda::kWarpSize);
    m.row_sums[0] = sums.x, m.row_sums[1] = sums.y;
    return m;
  }
  __device__ __forceinline__ Passes<Bits11> gradients() const {
    return {transposed(kRowsTransposed), transposed(kColumnsTransposed)};
  }
  // Returns the right operand of a product.
  __device__ __forceinline__ Bits8 right(OperandVector vector) const {
    const uint4 v = load(vector);
    return {{{v.x, v.y}, {v.z, v.w}}};
  }

 private:
  __device__ __forceinline__ uint4 load(int vector) const {
    return words_[vector * cuda::kWarpSize];
  }
  __device__ __forceinline__ Bits8 left(int vector) const {
    const uint4 v = load(vector);
    return {{{v.x, v.z}, {v.y, v.w}}};
  }
  __device__ __forceinline__ Bits11 transposed(int vector) const {
    const uint4 a = load(vector), b = load(vector + 1);
    return {{{a.x, a.z, a.y, a.w}, {b.x, b.z, b.y, b.w}}};
  }

  const uint4* words_ = nullptr;
};

}  // namespace dtn::tensor
