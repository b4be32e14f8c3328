// Declarations shared by the CUDA files of attention: where a thread block finds its head, and the
// functions of each path. attention.cu chooses among them.
#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/cuda/values.cuh"
#include "kernels/grouped_attention/grouped_attention.h"

namespace dtn::attention {

inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// The array sizes of one call, as a kernel receives them.
struct HeadShape {
  int tokens, heads, dim;
  int blocks;                           // thread blocks per head of an image
  int first_image;                      // of this grid
  bool aligned;                         // row starts and sizes are multiples of 16 bytes
  std::int64_t qkv_stride, out_stride;  // from token to token, in elements
};

template <class Args>
HeadShape head_shape(const Args& args) {
  HeadShape shape{};
  shape.tokens = static_cast<int>(args.tokens);
  shape.heads = static_cast<int>(args.heads);
  shape.dim = static_cast<int>(args.head_dim);
  shape.out_stride = args.heads * args.head_dim;
  shape.qkv_stride = 3 * shape.out_stride;
  return shape;
}

inline bool starts_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// The head of this thread block and the block's index among the blocks of the head.
struct BlockHead {
  int image, head, block;

  // Hides the values from the compiler, which then recomputes offsets where they are used.
  // Otherwise it keeps seldom used offsets in registers through a loop that has none to spare.
  __device__ __forceinline__ BlockHead recomputed() const {
    BlockHead same = *this;
    asm volatile("" : "+r"(same.image), "+r"(same.head));
    return same;
  }

  // Offsets of the head in [B, T, 3, H, D], [B, T, H, D] and [B, H, T].
  __device__ __forceinline__ std::int64_t qkv(const HeadShape& shape) const {
    return token(shape) * shape.qkv_stride + head * shape.dim;
  }
  __device__ __forceinline__ std::int64_t out(const HeadShape& shape) const {
    return token(shape) * shape.out_stride + head * shape.dim;
  }
  __device__ __forceinline__ std::int64_t row(const HeadShape& shape) const {
    return (static_cast<std::int64_t>(image) * shape.heads + head) * shape.tokens;
  }

 private:
  __device__ __forceinline__ std::int64_t token(const HeadShape& shape) const {
    return static_cast<std::int64_t>(image) * shape.tokens;
  }
};
template <class Shape>
__device__ __forceinline__ BlockHead block_head(const Shape& shape) {
  return {shape.first_image + static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y),
          static_cast<int>(blockIdx.x)};
}

// Calls f(grid) until the blocks of all images are launched; sets shape.first_image for each grid.
// The blocks of an image are adjacent, like the memory that they read.
template <class Shape, class F>
void for_head_grids(Shape& shape, std::int64_t images, F&& f) {
  DTN_CHECK(shape.heads <= 65535, "attention: ", shape.heads,
            " heads; CUDA devices take up to 65535");
  for (std::int64_t first = 0; first < images; first += images_of_grid) {
    shape.first_image = static_cast<int>(first);
    f(dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.heads),
           static_cast<unsigned>(std::min(images - first, images_of_grid))));
  }
}

// Per query row, for the backward pass: its log-sum-exp, and delta = sum of dout out. The kernel of
// dq writes it, the kernel of dk and dv reads it.
struct alignas(8) RowStatistics {
  float lse, delta;
};

// On tensor cores: bfloat16, head_dim <= kMaxTensorDim.
inline constexpr int kMaxTensorDim = 128;
void tensor_forward(CudaQueue&, const AttentionForward&);
void tensor_backward(CudaQueue&, const AttentionBackward&, RowStatistics*);

// On tensor cores with products of warpgroups, for the sizes that attention.cu sends there.
inline constexpr int kMinWarpgroupTokens = 129, kMaxWarpgroupTokens = 256;
void warpgroup_forward(CudaQueue&, const AttentionForward&);
void warpgroup_backward(CudaQueue&, const AttentionBackward&);
// Shared memory of a block of the backward pass, in bytes. The backward pass takes only D = 48.
std::size_t warpgroup_backward_bytes(std::int64_t tokens);

// On CUDA cores: float32, or bfloat16 computed in float32; head_dim <= kMaxPlainDim.
inline constexpr int kMaxPlainDim = 256;
void plain_forward(CudaQueue&, const AttentionForward&);
void plain_backward(CudaQueue&, const AttentionBackward&, RowStatistics*);
// Likewise inside groups; heads of up to kMaxGroupedHead.
void grouped_plain_forward(CudaQueue&, const GroupedAttentionForward&);
void grouped_plain_backward(CudaQueue&, const GroupedAttentionBackward&, RowStatistics*);

// Inside groups on tensor cores: bfloat16, with head rows that begin at multiples of 16 bytes. Key
// and value columns are 16 and 16, 16 and 32, 16 and 64, 32 and 32 or 64 and 64, or 8 fewer of
// either. Both return false, and do nothing, for any other problem.
bool grouped_tiles_forward(CudaQueue&, const GroupedAttentionForward&);
bool grouped_tiles_backward(CudaQueue&, const GroupedAttentionBackward&, RowStatistics*);

// The blocks of keys that each block of queries sees; see BlockAttentionProblem.
struct BlockTable {
  const std::int64_t* seen = nullptr;    // [H, blocks, width]; null: all see all
  int block = 0, blocks = 0, width = 0;  // block 0: no table
  bool has_zero_keys = false;

  // The blocks that a block of queries sees, with -1 after the last; null: all.
  __device__ __forceinline__ const std::int64_t* seen_by(int head, int row) const {
    if (!seen || row == 0 || row == blocks - 1) return nullptr;
    return seen + (static_cast<std::int64_t>(head) * blocks + row) * width;
  }
  // Number of keys with score 0 and value 0 that a block of queries sees, in addition to the
  // `tokens` tokens.
  __device__ __forceinline__ int zero_keys(int head, int row, int tokens) const {
    if (!has_zero_keys) return 0;
    const std::int64_t* of_row = seen_by(head, row);
    int sum = 0;
    for (int i = 0; i < (of_row ? width : blocks); ++i) {
      const int b = of_row ? static_cast<int>(of_row[i]) : i, end = (b + 1) * block;
      const int first = b * block < tokens ? tokens : b * block;
      if (b >= 0 && first < end) sum += end - first;
    }
    return sum;
  }
};

// With lengths, dropout or a table of blocks; head_dim <= kMaxPlainDim. On tensor cores for the
// problems that has_tiles() accepts: bfloat16, rows that begin at multiples of 16 bytes, heads of
// 8, 16, 24, 32, 56 or 64 columns, blocks of a multiple of 64 tokens. Else one warp per token.
void masked_forward(CudaQueue&, const AttentionForward&, const BlockTable&);
void masked_backward(CudaQueue&, const AttentionBackward&, const BlockTable&);
void tiles_forward(CudaQueue&, const AttentionForward&, const BlockTable&);
void tiles_backward(CudaQueue&, const AttentionBackward&, const BlockTable&, RowStatistics*);
inline constexpr int kMaxTileBlocks = 4096;
template <class Args>
bool has_tiles(const Args& args, const BlockTable& table) {
  const std::int64_t dim = args.head_dim, rounded = (dim + 15) / 16 * 16;
  const bool is_head = dim % 8 == 0 && (rounded == 16 || rounded == 32 || rounded == 64);
  const bool is_table = table.block % 64 == 0 && table.blocks <= kMaxTileBlocks;
  return args.dtype == DType::kBFloat16 && is_head && is_table && starts_aligned(args.qkv) &&
         starts_aligned(args.out);
}

}  // namespace dtn::attention
