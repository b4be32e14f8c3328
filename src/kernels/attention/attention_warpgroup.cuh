// Attention by products of warpgroups (kernels/cuda/warpgroup.cuh), for the sizes of vision
// transformers: bfloat16, aligned rows, D = 48 or (forward pass only) 64, more than 128 and at most
// 256 tokens, no bias. A thread block computes one head. All keys and values of the head lie in
// shared memory; in the backward pass, its queries too. The scores of 64 queries with all keys are
// in registers of one warpgroup.
//
// No card has run these kernels yet, so attention_tensor_*.cu are used unless use_warpgroups is
// true. To validate them on compute capability 9.0, run the tests CudaAttentionWarpgroup.*, then
// `dtn-bench kernels --only attention` with and without DTN_CUDA_WGMMA=1. ptxas -v must not report
// serialized products; it reports them if it assumes that lanes may diverge around them.
#pragma once

#include "kernels/attention/attention_tensor.cuh"
#include "kernels/cuda/warpgroup.cuh"

namespace dtn::attention {

// Calls f(integral constant D).
template <class F>
void for_warpgroup_dim(std::int64_t head_dim, F&& f) {
  if (head_dim == 48) return f(std::integral_constant<int, 48>{});
  if (head_dim == 64) return f(std::integral_constant<int, 64>{});
  DTN_CHECK(false, "attention: no warpgroup kernel for heads of ", head_dim, " channels");
}

__host__ __device__ constexpr int round_up_to(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

// Starts to copy rows 0 to `rows` - 1 of a head, `stride` values apart, into shared memory as core
// matrices. Rows past the last token become zeros. A warp copies eight rows at a time, with eight
// lanes per core matrix: first four core matrices, then the rest. So no lane needs a division to
// find its piece.
template <int D>
__device__ __forceinline__ void copy_head_rows(cuda::AsyncCopies& copies, bfloat16* to,
                                               const bfloat16* from, std::int64_t stride, int rows,
                                               const HeadShape& shape) {
  constexpr int kLeft = D / 8 - 4;  // core matrices of eight rows after the first four
  static_assert(kLeft >= 0 && kLeft <= 4);
  const int thread = recomputed_thread(), lane = thread % cuda::kWarpSize;
  const int first = thread / cuda::kWarpSize * 8, step = static_cast<int>(blockDim.x) / 4;
  const bfloat16* source = from + (first + lane % 8) * stride + lane / 8 * 8;
  to += first * D + lane * 8;
  for (int row = first + lane % 8; row < rows; row += step) {
    const bool inside = row < shape.tokens;
    const bfloat16* there = inside ? source : from;
    copies.copy<16>(to, there, inside);
    if (lane / 8 < kLeft) copies.copy<16>(to + 256, there + 32, inside);
    source += step * stride;
    to += step * D;
  }
}

// A thread's lane, its warpgroup, and the first row of its warp among the group's 64. The warp's
// number comes from a shuffle, so that the compiler knows that it is the same in all lanes. If the
// compiler assumes that lanes may diverge, it makes each product wait for the one before.
struct GroupLane : Lane {
  int group, warp_row;
};
__device__ __forceinline__ GroupLane this_group_lane() {
  const int warp =
      __shfl_sync(cuda::kWholeWarp, static_cast<int>(threadIdx.x) / cuda::kWarpSize, 0);
  return {this_lane(), warp / 4, warp % 4 * 16};
}

}  // namespace dtn::attention
