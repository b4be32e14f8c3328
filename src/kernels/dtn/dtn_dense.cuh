// Shared by the forward and backward passes of DTN with full position matrices on a CUDA device.
//
// The steps exchange their results through global memory: Z = [x, x^2] with x minus the pivot, a
// matrix product with P for all images at once, and a kernel that reads the product token by token.
// All steps except the product are memory-bound. Z, M = P Z and their gradients are float32,
// [H, T', B, 2, D].
#pragma once

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_norm_cuda.cuh"

namespace dtn::dense {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / cuda::kWarpSize;

struct Sizes {
  std::int64_t batch, columns;  // columns of Z: 2 B D
  std::int64_t image;           // elements from one image to the next
  int tokens, channels, heads, head_dim, grid_w;
  int pool, cells, pooled_w;
  int parts, width;  // slices per head, channels per slice; the last slice may have fewer
  float eps;

  Sizes() = default;
  explicit Sizes(const DtnNormArguments& norm)
      : batch(norm.batch),
        columns(2 * norm.batch * (norm.channels / norm.heads)),
        image(norm.stride()),
        tokens(static_cast<int>(norm.grid_h * norm.grid_w)),
        channels(static_cast<int>(norm.channels)),
        heads(static_cast<int>(norm.heads)),
        head_dim(channels / heads),
        grid_w(static_cast<int>(norm.grid_w)),
        pool(static_cast<int>(norm.pool)),
        cells(tokens / (pool * pool)),
        pooled_w(grid_w / pool),
        parts((head_dim + cuda::kWarpSize - 1) / cuda::kWarpSize),
        width((head_dim + parts - 1) / parts),
        eps(static_cast<float>(norm.eps)) {}

  std::int64_t size_of_z() const { return heads * cells * columns; }
  std::int64_t slices() const { return batch * heads * parts; }

  __host__ __device__ int cell_of(int token) const {
    return token / grid_w / pool * pooled_w + token % grid_w / pool;
  }
  // Token k < pool^2 of a cell.
  __host__ __device__ int token_of(int cell, int k) const {
    return (cell / pooled_w * pool + k / pool) * grid_w + cell % pooled_w * pool + k % pool;
  }
  // Offset in x of token `row` of [B T].
  __device__ __forceinline__ std::int64_t start_of(std::int64_t row) const {
    return row / tokens * image + row % tokens * channels;
  }
  // Offset in Z of the first moment; the second is head_dim elements further.
  __host__ __device__ std::int64_t at(int head, int cell, std::int64_t sample, int d) const {
    return ((std::int64_t{head} * cells + cell) * batch + sample) * 2 * head_dim + d;
  }
};

// A block's slice: some channels of one head of one image. Each lane has one channel. The warps
// divide the tokens among themselves.
struct Slice {
  std::int64_t image;
  int head, part, d, channel;  // the lane's channel: d within the head, channel within the image
  bool active;                 // true if the lane has a channel
  int lane, warp;

  __device__ explicit Slice(const Sizes& s) {
    std::int64_t i = blockIdx.x;
    part = static_cast<int>(i % s.parts);
    i /= s.parts;
    head = static_cast<int>(i % s.heads);
    image = i / s.heads;
    lane = static_cast<int>(threadIdx.x) % cuda::kWarpSize;
    warp = static_cast<int>(threadIdx.x) / cuda::kWarpSize;
    d = part * s.width + lane;
    active = lane < s.width && d < s.head_dim;
    if (!active) d = part * s.width;  // a channel that is safe to read
    channel = head * s.head_dim + d;
  }
};

// Computes Z. In the forward pass (bases not null) it computes the pivots first.
void gather(CudaQueue& queue, const DtnNormArguments& norm, const Sizes& s, const float* bases,
            float* z);

// Computes M = P Z, or P^T Z.
void multiply(CudaQueue& queue, const Sizes& s, const void* positions, bool transposed,
              const float* z, float* m);

}  // namespace dtn::dense
