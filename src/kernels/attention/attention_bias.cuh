// The positional bias of attention (see attention.h) on the device. Every score computes its bias
// from the positions of its two tokens: six float32 operations, exact differences and no tables.
// Tensor cores and exponentials stay the limit. The gradient of the weights takes five more
// operations, in the kernel of dq alone. Each warp stores its three sums, which are then added in a
// fixed order.
//
// Templates over kBiased are empty if there is no bias.
#pragma once

#include "kernels/attention/attention_device.cuh"
#include "kernels/cuda/partials.cuh"

namespace dtn::attention {

// The bias arguments of a kernel.
template <bool kIsBiased>
struct GridBias {
  static constexpr bool kBiased = false;
};
template <>
struct GridBias<true> {
  static constexpr bool kBiased = true;
  const float* weight;  // [H, 3]
  int grid_w;
  float* partial = nullptr;  // [B, blocks, warps, H, 3]: gradient sums; null: not needed
};

// Column and row of a token.
struct alignas(8) Place {
  float x, y;
};
__device__ __forceinline__ Place place_of(const GridBias<true>& grid, int token) {
  int row = token / grid.grid_w;
  return {static_cast<float>(token - row * grid.grid_w), static_cast<float>(row)};
}

// Positions of n tokens that are `step` apart.
template <bool kBiased, int n>
struct Places {
  __device__ __forceinline__ Places(const GridBias<kBiased>&, int, int) {}
};
template <int n>
struct Places<true, n> {
  Place at[n];
  __device__ __forceinline__ Places(const GridBias<true>& grid, int first, int step) {
#pragma unroll
    for (int i = 0; i < n; ++i) at[i] = place_of(grid, first + i * step);
  }
};

// The weights of the block's head, times `unit`.
template <bool kBiased>
struct HeadBias {
  __device__ __forceinline__ HeadBias(const GridBias<kBiased>&, BlockHead, float = 1) {}
};
template <>
struct HeadBias<true> {
  float x, y, d;
  __device__ __forceinline__ HeadBias(const GridBias<true>& grid, BlockHead head, float unit = 1) {
    const float* weight = grid.weight + head.head * 3;
    x = weight[0] * unit, y = weight[1] * unit, d = weight[2] * unit;
  }
  __device__ __forceinline__ float operator()(Place query, Place key) const {
    float dx = key.x - query.x, dy = key.y - query.y;
    return fmaf(dx, fmaf(d, dx, x), dy * fmaf(d, dy, y));
  }
};

// A thread's part of the gradient of the weights.
template <bool kBiased>
struct BiasGradient {
  template <class Shape>
  __device__ __forceinline__ void store(const GridBias<kBiased>&, const Shape&, BlockHead) const {}
};
template <>
struct BiasGradient<true> {
  float x = 0, y = 0, d = 0;

  __device__ __forceinline__ void take(float ds, Place query, Place key) {
    float dx = key.x - query.x, dy = key.y - query.y;
    x = fmaf(ds, dx, x);
    y = fmaf(ds, dy, y);
    d = fmaf(ds, fmaf(dx, dx, dy * dy), d);
  }
  // Must be called by every warp of the block.
  template <class Shape>
  __device__ __forceinline__ void store(const GridBias<true>& grid, const Shape& shape,
                                        BlockHead head) const {
    if (!grid.partial) return;
    float sums[3] = {cuda::warp_sum(x), cuda::warp_sum(y), cuda::warp_sum(d)};
    int warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    int warps = static_cast<int>(blockDim.x) / cuda::kWarpSize;
    if (threadIdx.x % cuda::kWarpSize != 0) return;
    std::int64_t block = static_cast<std::int64_t>(head.image) * shape.blocks;
    std::int64_t row = (block + head.block) * warps + warp;
    float* to = grid.partial + (row * shape.heads + head.head) * 3;
#pragma unroll
    for (int k = 0; k < 3; ++k) to[k] = sums[k];
  }
};

// The log-sum-exp of a query row past the last query. Its products are 0, so its probabilities may
// be any finite values. The exponential of a bias may be infinite; lse = infinity makes it 0.
template <bool kBiased>
inline constexpr float kNoRow = kBiased ? INFINITY : 0.0f;

// Calls f(GridBias) with the type that the arguments select.
template <class Args, class F>
void for_bias(const Args& args, F&& f) {
  if (!args.pos_weight) return f(GridBias<false>{});
  f(GridBias<true>{static_cast<const float*>(args.pos_weight), static_cast<int>(args.grid_w)});
}

// Runs start(bias), which launches the kernel of dq with `warps` warps in total per head, and then
// adds up the gradient sums of the warps.
template <bool kBiased, class F>
void with_bias_gradient(CudaQueue& queue, const AttentionBackward& args, GridBias<kBiased> bias,
                        std::int64_t warps, F&& start) {
  if constexpr (kBiased) {
    if (args.dpos_weight) {
      auto partial = queue.scratch<float>(args.batch * warps * args.heads * 3);
      bias.partial = partial.get();
      start(bias);
      cuda::add_partials(queue, "attention_bias_gradient",
                         {partial.get(),
                          args.batch * warps,
                          3 * args.heads,
                          1,
                          {static_cast<float*>(args.dpos_weight), nullptr}});
      return;
    }
  }
  start(bias);
}

}  // namespace dtn::attention
