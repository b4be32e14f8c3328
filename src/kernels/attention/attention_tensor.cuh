// Building blocks of the tensor-core kernels of attention. Every kernel has the same form. A warp
// owns 16 or 32 rows of one side (queries or keys) as fragments in registers. The rows of the other
// side stream through shared memory, 64 at a time, in two stages, and all warps read them. Every
// product is then one of two:
//    scores:      s += own rows^T   [rows, 16], depth D: B is 16 streamed rows as stored
//    accumulate:  acc += p rows     [rows, D], depth 16: B is 16 streamed rows, transposed
// The fragments of s, rounded and packed, are those of p, without any exchange between lanes.
//
// A streamed row takes D + 8 values, an odd number of 16-byte units, as D is a multiple of 16. So
// the eight rows that one phase of load_matrices reads lie in eight different groups of four banks.
// The same holds for the eight rows of an output fragment that a warp stores, four words of each.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_bias.cuh"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace dtn::attention {

inline constexpr int kTileRows = 64;  // streamed at a time
inline constexpr int kRingRows = 2 * kTileRows;

// log2(e) scale, for the forward pass. The shift assumes that the largest product gives the largest
// score, so a negative sign goes to q. The magnitude is never 0: times the -infinity of a missing
// key, 0 would give NaN.
struct Scale {
  float magnitude;
  unsigned sign;  // of two bfloat16

  explicit Scale(double scale)
      : magnitude(std::max(std::abs(static_cast<float>(scale) * kLog2E), 1e-30f)),
        sign(scale < 0 ? 0x80008000u : 0u) {}
};

// Stride of a row in shared memory, in values.
template <int D>
inline constexpr int kRowStride = D + 8;

// Size of one ring buffer, in values.
template <int D>
inline constexpr int kRingSize = kRingRows* kRowStride<D>;

// Address of streamed row `row` in a ring buffer.
template <int D>
__device__ __forceinline__ const bfloat16* at_row(const bfloat16* ring, int row) {
  return ring + row % kRingRows * kRowStride<D>;
}

// The lane's position in a fragment.
struct Lane {
  int index, g, t;
};
__device__ __forceinline__ Lane this_lane() {
  int index = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
  return {index, index / 4, index % 4};
}

// Sum and maximum over the four lanes with the same g, which share the rows of a fragment.
__device__ __forceinline__ float sum_of_quad(float v) {
  v += __shfl_xor_sync(cuda::kWholeWarp, v, 1);
  return v + __shfl_xor_sync(cuda::kWholeWarp, v, 2);
}
__device__ __forceinline__ float max_of_quad(float v) {
  v = fmaxf(v, __shfl_xor_sync(cuda::kWholeWarp, v, 1));
  return fmaxf(v, __shfl_xor_sync(cuda::kWholeWarp, v, 2));
}

// The thread's index, for values that are seldom needed. It is computed anew each time. Otherwise
// the compiler keeps it in registers through a loop that has none to spare.
__device__ __forceinline__ int recomputed_thread() {
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
  return thread;
}

// kAligned: every row of a head starts at a multiple of 16 bytes, and so does its size.

// Loads the lane's two values in columns `first` to first + 7; zeros from column dim on. `pair`
// points to the lane's values in columns 0 to 7.
template <int D, bool kAligned>
__device__ __forceinline__ unsigned load_pair(const bfloat16* pair, int first,
                                              const HeadShape& shape) {
  if constexpr (kAligned) {  // only the last eight columns may be missing, all together
    if (first == D - 8 && shape.dim < D) return 0;
    return *reinterpret_cast<const unsigned*>(pair + first);
  } else {
    const int column = first + 2 * this_lane().t;
    if (column >= shape.dim) return 0;
    const unsigned high = column + 1 < shape.dim ? pair[first + 1].bits : 0u;
    return pair[first].bits | high << 16;
  }
}

// Loads the A fragments of 16 rows [16, D] from global memory; zeros outside of [tokens, dim]. The
// four lanes of a quad read 16 adjacent bytes, and then the next 16 bytes of the sector.
template <int D, bool kAligned>
__device__ __forceinline__ void load_own_rows(unsigned (&a)[D / 16][4], const bfloat16* from,
                                              std::int64_t stride, int first,
                                              const HeadShape& shape) {
  const Lane lane = this_lane();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane.g + 8 * half;
    const bool inside = row < shape.tokens;
    const bfloat16* pair = from + (inside ? row : 0) * stride + 2 * lane.t;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      unsigned& values = a[i / 2][half + i % 2 * 2];
      values = inside ? load_pair<D, kAligned>(pair, 8 * i, shape) : 0u;
    }
  }
}

// Two arrays whose equal rows are streamed together; rows are `stride` values apart.
struct Streamed {
  const bfloat16* from;
  int stride;
};
struct StreamedPair {
  Streamed of[2];

  __device__ __forceinline__ StreamedPair(const bfloat16* a, std::int64_t a_stride,
                                          const bfloat16* b, std::int64_t b_stride)
      : of{{a, static_cast<int>(a_stride)}, {b, static_cast<int>(b_stride)}} {}
};

// Starts to copy 16 rows of both arrays into shared memory. Rows from `left` on and columns from
// dim on become zeros. The whole warp takes part. It copies as many rows at a time as it has lanes
// for, 16 bytes per lane. So the pieces of a lane lie in one column, equally far apart.
template <int D>
__device__ __forceinline__ void stream_aligned_rows(cuda::AsyncCopies& copies, int lane,
                                                    bfloat16* to, StreamedPair rows, int left,
                                                    const HeadShape& shape) {
  constexpr int kPieces = D / 8;  // per row
  constexpr int kAtOnce = kPieces <= 2 ? 16 : kPieces <= 4 ? 8 : kPieces <= 8 ? 4 : 2;
  const int first = lane / kPieces, column = lane % kPieces * 8;
  if (first >= kAtOnce) return;
  if (column >= shape.dim) left = 0;
  to += first * kRowStride<D> + column;
#pragma unroll
  for (int next = 0; next < 16; next += kAtOnce) {
    const int row = first + next;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Streamed& s = rows.of[i];
      copies.copy<16>(to + i * kRingSize<D> + next * kRowStride<D>,
                      s.from + (row * s.stride + column), row < left);
    }
  }
}

// The same for rows that start at any address: value by value, through registers.
template <int D>
__device__ __forceinline__ void copy_rows(int lane, bfloat16* to, const StreamedPair& rows,
                                          int left, const HeadShape& shape) {
#pragma unroll 1
  for (int i = lane; i < 16 * D; i += cuda::kWarpSize) {
    const int row = i / D, column = i % D;
    const bool inside = row < left && column < shape.dim;
    for (int k = 0; k < 2; ++k) {
      const Streamed& s = rows.of[k];
      to[k * kRingSize<D> + row * kRowStride<D> + column].bits =
          inside ? s.from[row * s.stride + column].bits : std::uint16_t{0};
    }
  }
}

// Starts to copy kTileRows rows of both arrays, from `first` on, into two adjacent ring buffers;
// zeros outside of [tokens, dim]. The warps of the block take 16 rows each, in turn.
template <int D, bool kAligned>
__device__ __forceinline__ void stream_rows(cuda::AsyncCopies& copies, bfloat16* rings,
                                            const StreamedPair& arrays, int first,
                                            const HeadShape& shape) {
  const int thread = recomputed_thread();
  const int lane = thread % cuda::kWarpSize, warp = thread / cuda::kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
#pragma unroll 1
  for (int row = 16 * warp; row < kTileRows; row += 16 * warps) {
    bfloat16* to = rings + (first % kRingRows + row) * kRowStride<D>;
    StreamedPair rows = arrays;
    for (Streamed& s : rows.of) s.from += static_cast<std::int64_t>(first + row) * s.stride;
    const int left = shape.tokens - first - row;
    if constexpr (kAligned) {
      stream_aligned_rows<D>(copies, lane, to, rows, left, shape);
    } else {
      copy_rows<D>(lane, to, rows, left, shape);
    }
  }
}

// With a bias, the positions of the streamed rows have a separate ring buffer of kRingRows. The
// whole block takes part.
template <bool kBiased>
inline constexpr std::size_t kPlaceBytes = kBiased ? kRingRows * sizeof(Place) : 0;
template <bool kBiased>
__device__ __forceinline__ void stream_places(Place* ring, const GridBias<kBiased>& grid,
                                              int first) {
  if constexpr (kBiased) {
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows; i += static_cast<int>(blockDim.x)) {
      ring[(first + i) % kRingRows] = place_of(grid, first + i);
    }
  }
}

// Positions of columns 2t and 2t + 1 of a result fragment; `places` is that of its first column.
struct PlacePair {
  Place at[2];
};
__device__ __forceinline__ PlacePair load_places(const Place* places) {
  float4 v = *reinterpret_cast<const float4*>(places + 2 * this_lane().t);
  return {{{v.x, v.y}, {v.z, v.w}}};
}

// s[r][j] += own[r] rows^T, where j counts the 8-row halves of 16 streamed rows.
template <int D, int R>
__device__ __forceinline__ void scores(float (&s)[R][2][4], const unsigned (&own)[R][D / 16][4],
                                       const bfloat16* rows) {
  int lane = this_lane().index;
  const bfloat16* row = rows + (lane / 16 * 8 + lane % 8) * kRowStride<D> + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    unsigned b[4];
    cuda::load_matrices<false>(b, row + k * 16);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      cuda::mma_bf16(s[r][0], own[r][k], {b[0], b[1]});
      cuda::mma_bf16(s[r][1], own[r][k], {b[2], b[3]});
    }
  }
}

// acc[r] += p[r] rows, for 16 streamed rows.
template <int D, int R>
__device__ __forceinline__ void accumulate(float (&acc)[R][D / 8][4], const unsigned (&p)[R][4],
                                           const bfloat16* rows) {
  int lane = this_lane().index;
  const bfloat16* row = rows + lane % 16 * kRowStride<D> + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    unsigned b[4];
    cuda::load_matrices<true>(b, row + k * 16);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      cuda::mma_bf16(acc[r][2 * k], p[r], {b[0], b[1]});
      cuda::mma_bf16(acc[r][2 * k + 1], p[r], {b[2], b[3]});
    }
  }
}

// Rounds the result fragments of 16 columns and packs them as the left operand of a product over
// these columns.
__device__ __forceinline__ void pack_operand(unsigned (&a)[4], const float (&c)[2][4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    a[2 * j] = cuda::pack_bfloat16(c[j][0], c[j][1]);
    a[2 * j + 1] = cuda::pack_bfloat16(c[j][2], c[j][3]);
  }
}

// Rounds 16 rows of a warp into `shared`, so that they can be stored in 16-byte pieces. Row g of a
// fragment is multiplied by factor[0] and row g + 8 by factor[1]. `shared` has 16 rows that belong
// to the warp alone.
template <int D>
__device__ __forceinline__ void stage_rows(const float (&acc)[D / 8][4], const float (&factor)[2],
                                           bfloat16* shared) {
  const Lane lane = this_lane();
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<unsigned*>(shared + (lane.g + 8 * half) * kRowStride<D> + n * 8 +
                                   2 * lane.t) =
          cuda::pack_bfloat16(acc[n][2 * half] * factor[half], acc[n][2 * half + 1] * factor[half]);
    }
  }
  __syncwarp();
}

// Writes 16 rows of a warp to global memory, through `shared` as in stage_rows().
template <int D, bool kAligned>
__device__ __forceinline__ void store_own_rows(const float (&acc)[D / 8][4],
                                               const float (&factor)[2], bfloat16* shared,
                                               bfloat16* to, std::int64_t stride, int first,
                                               const HeadShape& shape) {
  stage_rows<D>(acc, factor, shared);
  const Lane lane = this_lane();
  constexpr int kVectors = D / 8;
#pragma unroll
  for (int i = lane.index; i < 16 * kVectors; i += cuda::kWarpSize) {
    int row = i / kVectors, column = i % kVectors * 8;
    const bfloat16* from = shared + row * kRowStride<D> + column;
    bfloat16* target = to + (first + row) * stride + column;
    if (first + row >= shape.tokens || column >= shape.dim) continue;
    if constexpr (kAligned) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int k = 0; k < 8 && column + k < shape.dim; ++k) target[k] = from[k];
    }
  }
  __syncwarp();
}

// Occupancy of a kernel. With two tiles of 16 rows, a warp reads each fragment of the streamed rows
// once for both tiles. Shared memory (2 cycles per fragment) then keeps up with the tensor cores
// (about 1.6 per product). With one tile a warp has registers for a larger D, or the block for more
// warps. A multiprocessor has 65536 registers for its warps, which it counts in fours: 16 warps get
// 128 per thread, 12 get 168, 8 get 255.
struct Residency {
  int tiles, max_warps, blocks;  // tiles per warp, warps per block, blocks per multiprocessor
};
template <Residency kResidency>
struct Resident {
  static constexpr int kTiles = kResidency.tiles;
  static constexpr int kRowsPerWarp = 16 * kTiles;
  static constexpr int kMaxWarps = kResidency.max_warps;
  static constexpr int kMaxThreads = kMaxWarps * cuda::kWarpSize;
  // Rows at any address pass through registers.
  static constexpr int blocks_per_sm(bool aligned) { return aligned ? kResidency.blocks : 1; }
  // Results are stored through the ring buffers, 16 rows per warp.
  static_assert(kMaxWarps * 16 <= 2 * kRingRows);
};

// Division of a head's rows: as few blocks per head as possible, then as few warps per block as
// these blocks need, so that the blocks are alike.
struct Division {
  int warps, blocks;
};
inline Division divide_rows(std::int64_t tokens, int rows_per_warp, int max_warps) {
  std::int64_t tiles = (tokens + rows_per_warp - 1) / rows_per_warp;
  std::int64_t blocks = (tiles + max_warps - 1) / max_warps;
  return {static_cast<int>((tiles + blocks - 1) / blocks), static_cast<int>(blocks)};
}

// Calls f(integral constant D, integral constant kAligned), where D is head_dim rounded up to a
// multiple of 16.
template <int D = 16, class F>
void for_head_rows(std::int64_t head_dim, bool aligned, F&& f) {
  if constexpr (D < kMaxTensorDim) {
    if (head_dim > D) return for_head_rows<D + 16>(head_dim, aligned, f);
  }
  constexpr std::integral_constant<int, D> padded;
  aligned ? f(padded, std::true_type{}) : f(padded, std::false_type{});
}

}  // namespace dtn::attention
