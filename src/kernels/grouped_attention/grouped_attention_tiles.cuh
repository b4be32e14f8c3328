// Attention inside groups on tensor cores, for windows and reduced keys, mostly of 49 tokens. A
// block of four warps owns 64 rows of one side of a head of a unit. The other side streams by, 64
// rows at a time, as in attention_tiles.cuh. Keys have DK columns and values DV.
#pragma once

#include "kernels/attention/attention_groups.cuh"
#include "kernels/attention/attention_softmax.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace dtn::attention {

// Ring buffer size of one streamed array, in values.
template <int D>
inline constexpr int kGroupedRing = kRingRows* kRowStride<D>;

// The rows of a warp, on one side of a unit.
struct GroupedWarp {
  BlockHead head;
  int index, first;  // of the warp; its first row

  __device__ __forceinline__ explicit GroupedWarp(const GroupedShape& shape)
      : head(block_head(shape)), index(static_cast<int>(threadIdx.x) / cuda::kWarpSize) {
    first = head.block * kTileRows + 16 * index;
  }
};

// Turns products into scores in base 2, log2(e) (scale s + bias + penalty). A warp's rows are
// queries, or keys if kTransposed. For a missing query or key it reads the bias and region of the
// last one.
template <bool kTransposed>
class GroupedScores {
 public:
  // For the warp's rows from `first` on.
  __device__ __forceinline__ GroupedScores(const GroupedShape& shape, BlockHead head, int first)
      : terms_(shape, head),
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

// Calls f(DK, DV) with integral constants for the heads that attention_device.cuh lists; returns
// false for others.
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
