// Attention inside groups on tensor cores, for windows and reduced keys, mostly of 49 tokens. A
// block of four warps owns 64 rows of one side of a head of a unit. The other side streams by, 64
// rows at a time, as in attention_tiles.cuh. Keys have DK columns and values DV.
#pragma once

#include "kernels/attention/attention_softmax.cuh"
#include "kernels/attention/attention_tiles.cuh"
#include "kernels/grouped_attention/grouped_attention_plain.cuh"

namespace dtn::attention {

// One side of a unit: maps its rows to tokens of the sample.
struct UnitSide {
  const std::int64_t* tokens;  // null: all tokens in order
  std::int64_t sample;         // token 0 of the sample
  int count;

  __device__ __forceinline__ UnitSide(const GroupedShape& shape, int unit, int per_group)
      : tokens(shape.tokens
                   ? shape.tokens + static_cast<std::int64_t>(unit % shape.groups) * per_group
                   : nullptr),
        sample(static_cast<std::int64_t>(unit / shape.groups) * shape.groups * per_group),
        count(per_group) {}
  // Index of an existing row in an array [B, tokens of a sample, *].
  __device__ __forceinline__ std::int64_t token(int row) const {
    return sample + (tokens ? tokens[row] : row);
  }
};

// The rows of a warp, on one side of a unit.
struct GroupedWarp {
  GroupedBlock block;
  int index, first;  // of the warp; its first row

  __device__ __forceinline__ explicit GroupedWarp(const GroupedShape& shape)
      : block(grouped_block(shape)) {
    index = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    first = block.block * kTileRows + 16 * index;
  }
};

// Ring buffer size of one streamed array, in values.
template <int D>
inline constexpr int kGroupedRing = kRingRows* kRowStride<D>;

// Returns the start of a row of a unit, at the columns of the head.
template <class T>
struct SideRows {
  const UnitSide& side;
  const GroupedRows<T>& rows;
  int head;

  __device__ __forceinline__ T* operator()(int row) const {
    return rows.first + side.token(row) * rows.ld + head * rows.stride;
  }
};

template <int D>
__device__ __forceinline__ void stream_unit(cuda::AsyncCopies& copies, bfloat16* ring, int slot,
                                            const GroupedRows<const bfloat16>& rows, int head,
                                            int tile, const UnitSide& side, int dim) {
  stream_gathered<D>(copies, ring, slot, tile, side.count, dim,
                     SideRows<const bfloat16>{side, rows, head});
}
template <int D>
__device__ __forceinline__ void load_unit(unsigned (&a)[D / 16][4],
                                          const GroupedRows<const bfloat16>& rows, int head,
                                          int first, const UnitSide& side, int dim) {
  load_gathered<D>(a, first, side.count, dim, SideRows<const bfloat16>{side, rows, head});
}
template <int D>
__device__ __forceinline__ void store_unit(const float (&acc)[D / 8][4], const float (&factor)[2],
                                           bfloat16* staging, const GroupedRows<bfloat16>& rows,
                                           int head, int first, const UnitSide& side, int dim) {
  store_gathered<D>(acc, factor, staging, first, side.count, dim,
                    SideRows<bfloat16>{side, rows, head});
}

// Turns products into scores in base 2, log2(e) (scale s + bias + penalty). A warp's rows are
// queries, or keys if kTransposed. For a missing query or key it reads the bias and region of the
// last one.
template <bool kTransposed>
class GroupedScores {
 public:
  // For the warp's rows from `first` on.
  __device__ __forceinline__ GroupedScores(const GroupedShape& shape, int unit, int head, int first)
      : terms_(shape, unit, head),
        scale_(shape.scale * kLog2E),
        queries_(shape.queries),
        keys_(shape.keys) {
    const int last = (kTransposed ? keys_ : queries_) - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + this_lane().g + 8 * half;
      own_[half] = row < last ? row : last;
      own_region_[half] = terms_.regions ? terms_.regions[own_[half]] : 0.0f;
    }
  }

  // Applies to products with 16 streamed rows, from row `first` of their side on. Missing streamed
  // keys get -infinity.
  __device__ __forceinline__ void apply(float (&s)[2][4], int first) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first + i / 2 * 8 + 2 * this_lane().t + i % 2;
      const int last = (kTransposed ? queries_ : keys_) - 1, streamed = row < last ? row : last;
      const float region = terms_.regions ? terms_.regions[streamed] : 0.0f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& v = s[i / 2][2 * half + i % 2];
        const int query = kTransposed ? streamed : own_[half];
        const int key = kTransposed ? own_[half] : streamed;
        v = fmaf(v, scale_, terms_.bias ? terms_.bias[query * keys_ + key] * kLog2E : 0.0f);
        if (region != own_region_[half]) {
          v += static_cast<float>(GroupedAttentionProblem::kRegionPenalty) * kLog2E;
        }
        if (!kTransposed && row > last) v = -INFINITY;
      }
    }
  }

 private:
  ScoreTerms terms_;
  float scale_;
  int queries_, keys_;
  int own_[2];
  float own_region_[2];
};

// Calls f(DK, DV) with integral constants for the heads that grouped_attention_tiles.h lists;
// returns false for others.
template <class F>
bool for_grouped_heads(std::int64_t key_dim, std::int64_t value_dim, F&& f) {
  const auto is = [&](std::int64_t k, std::int64_t v) {
    return key_dim > k - 16 && key_dim <= k && value_dim > v - 16 && value_dim <= v;
  };
  constexpr std::integral_constant<int, 16> c16;
  constexpr std::integral_constant<int, 32> c32;
  constexpr std::integral_constant<int, 64> c64;
  if (is(16, 16)) return f(c16, c16), true;
  if (is(16, 32)) return f(c16, c32), true;
  if (is(16, 64)) return f(c16, c64), true;
  if (is(32, 32)) return f(c32, c32), true;
  if (is(64, 64)) return f(c64, c64), true;
  return false;
}

}  // namespace dtn::attention
