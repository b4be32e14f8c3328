// Products of 16 x 16 matrices in the registers of one warp, for the tensor-core path of DTN.
//
// A tile is a 16 x 16 matrix, distributed over the warp like the accumulators of two m16n8
// products. Lane l = 4 g + t holds the elements (g + 8 a, 8 i + 2 t + b) for a, i, b = 0, 1. The
// only operation is
//    out += left right^T,     out[m, n] = sum_k left[m, k] right[n, k]
// It is enough, because in this layout a lane holds the same eight elements of a left operand, a
// right operand and an accumulator. A result is therefore the operand of the next product without a
// move. Let x be the plane of one channel, whose rows are the rows of the grid:
//    (P X)^T = Px x^T      contracts the columns of the grid and transposes the plane,
//    Py (Px x^T)^T         contracts its rows and transposes it back.
// After both passes of a separable P, the moments are in the same lanes as x. Each lane always
// processes the same eight tokens, and reads and writes them with 16-byte moves of several
// channels. Grids smaller than 16 x 16 are padded: matrices with zeros, planes with any finite
// values.
//
// Tensor cores multiply rounded numbers, so operands are sums of one or two rounded terms:
//    Bits8   one bfloat16
//    Bits16  two bfloat16; products are accurate to 2^-17
//    Bits11  one tf32
//    Bits22  two tf32; products are accurate to 2^-22
#pragma once

#include <type_traits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace dtn::tensor {

inline constexpr int kSide = 16;
inline constexpr int kPositions = kSide * kSide;
inline constexpr int kElements = kPositions / cuda::kWarpSize;  // per lane

__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % cuda::kWarpSize;
}

// Row and column of element e = 4 i + 2 a + b of a lane.
__device__ __forceinline__ int row_of(int e, int lane = lane_index()) {
  return lane / 4 + (e >> 1 & 1) * 8;
}
__device__ __forceinline__ int column_of(int e, int lane = lane_index()) {
  return (e >> 2) * 8 + lane % 4 * 2 + (e & 1);
}
struct Tile {
  float v[2][4] = {};  // [i][2 a + b]

  __device__ __forceinline__ float& operator()(int e) { return v[e >> 2][e & 3]; }
  __device__ __forceinline__ float operator()(int e) const { return v[e >> 2][e & 3]; }
};

struct Bits8 {
  unsigned v[2][2];  // [a][i]; b = 0 is the lower half
};
struct Bits16 {
  Bits8 high, low;
};
struct Bits11 {
  unsigned v[2][4];  // like Tile
};
struct Bits22 {
  Bits11 high, low;
};

template <class Operand>
__device__ __forceinline__ Operand round_to(const Tile& t);
template <>
__device__ __forceinline__ Bits8 round_to<Bits8>(const Tile& t) {
  Bits8 r;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    r.v[k & 1][k >> 1] =
        cuda::pack_bfloat16(t.v[k >> 1][(k & 1) * 2], t.v[k >> 1][(k & 1) * 2 + 1]);
  }
  return r;
}
__device__ __forceinline__ float value_of(const Bits8& m, int e) {
  const unsigned pair = m.v[e >> 1 & 1][e >> 2];
  return e & 1 ? cuda::high_bfloat16(pair) : cuda::low_bfloat16(pair);
}
template <>
__device__ __forceinline__ Bits16 round_to<Bits16>(const Tile& t) {
  Bits16 r;
  r.high = round_to<Bits8>(t);
  Tile rest;
#pragma unroll
  for (int e = 0; e < kElements; ++e) rest(e) = t(e) - value_of(r.high, e);
  r.low = round_to<Bits8>(rest);
  return r;
}
// Does not round: the hardware drops the lower 13 bits. See kCutMakesUp.
template <>
__device__ __forceinline__ Bits11 round_to<Bits11>(const Tile& t) {
  Bits11 r;
#pragma unroll
  for (int e = 0; e < kElements; ++e) r.v[e >> 2][e & 3] = __float_as_uint(t(e));
  return r;
}
template <>
__device__ __forceinline__ Bits22 round_to<Bits22>(const Tile& t) {
  Bits22 r;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const unsigned high = cuda::to_tf32(t(e));
    r.high.v[e >> 2][e & 3] = high;
    r.low.v[e >> 2][e & 3] = cuda::to_tf32(t(e) - __uint_as_float(high));
  }
  return r;
}

// out += left right^T.
__device__ __forceinline__ void add_product(Tile& out, const Bits8& left, const Bits8& right) {
  const unsigned a[4] = {left.v[0][0], left.v[1][0], left.v[0][1], left.v[1][1]};
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const unsigned b[2] = {right.v[n][0], right.v[n][1]};
    cuda::mma_bf16(out.v[n], a, b);
  }
}
// k = t and k = t + 4 of the instruction are columns 2 t and 2 t + 1 of both operands.
__device__ __forceinline__ void add_product(Tile& out, const Bits11& left, const Bits11& right) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned a[4] = {left.v[i][0], left.v[i][2], left.v[i][1], left.v[i][3]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const unsigned b[2] = {right.v[i][2 * n], right.v[i][2 * n + 1]};
      cuda::mma_tf32(out.v[n], a, b);
    }
  }
}
template <class Pair>
__device__ __forceinline__ void add_product_of_pairs(Tile& out, const Pair& left,
                                                     const Pair& right) {
  add_product(out, left.low, right.high);
  add_product(out, left.high, right.low);
  add_product(out, left.high, right.high);
}
__device__ __forceinline__ void add_product(Tile& out, const Bits16& left, const Bits16& right) {
  add_product_of_pairs(out, left, right);
}
__device__ __forceinline__ void add_product(Tile& out, const Bits22& left, const Bits22& right) {
  add_product_of_pairs(out, left, right);
}
template <class Operand>
__device__ __forceinline__ Tile product(const Operand& left, const Operand& right) {
  Tile out;
  add_product(out, left, right);
  return out;
}

__device__ __forceinline__ Bits8 transposed(const Bits8& m) {
  Bits8 r;
#pragma unroll
  for (int k = 0; k < 4; ++k) r.v[k & 1][k >> 1] = cuda::transpose_matrix(m.v[k >> 1][k & 1]);
  return r;
}
// Multiplies by the identity, because no instruction transposes 32-bit numbers.
__device__ __forceinline__ Bits22 transposed(const Bits22& m) {
  Bits11 identity;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    identity.v[e >> 2][e & 3] = __float_as_uint(row_of(e) == column_of(e) ? 1.0f : 0.0f);
  }
  Tile t;
  add_product(t, identity, m.low);
  add_product(t, identity, m.high);
  return round_to<Bits22>(t);
}

// Returns the leading term of a bfloat16 pair. A tf32 pair stays as it is.
template <class Operand>
__device__ __forceinline__ Operand narrow(const Bits16& m) {
  static_assert(std::is_same_v<Operand, Bits8>);
  return m.high;
}
template <class Operand>
__device__ __forceinline__ Operand narrow(const Bits22& m) {
  return m;
}

// Converts a matrix to an operand. Unlike round_to<Bits11>, it rounds to the nearest tf32.
template <class Operand>
__device__ __forceinline__ Operand matrix_operand(const Tile& t) {
  if constexpr (std::is_same_v<Operand, Bits11>) {
    Bits11 r;
#pragma unroll
    for (int e = 0; e < kElements; ++e) r.v[e >> 2][e & 3] = cuda::to_tf32(t(e));
    return r;
  } else {
    return round_to<Operand>(t);
  }
}

}  // namespace dtn::tensor
