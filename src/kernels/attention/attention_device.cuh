// What the CUDA files of attention share: where a thread block finds its head, and which function
// does which part. attention.cu chooses among them.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/cuda/values.cuh"

namespace dtn::attention {

inline constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// The arrays of one call, as a kernel gets them.
struct HeadShape {
  int tokens, heads, dim;
  int blocks;                           // thread blocks per head of an image
  bool aligned;                         // every row starts at, and is, a multiple of 16 bytes
  std::int64_t qkv_stride, out_stride;  // from token to token
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

// The head of this thread block and its place among the blocks of the head.
struct BlockHead {
  int item, block;  // item: image * heads + head

  // For offsets that are seldom needed: the compiler then computes them where they are used, from
  // one number, and does not keep them in registers through a loop that has none to spare.
  __device__ __forceinline__ BlockHead recomputed() const {
    BlockHead same = *this;
    asm volatile("" : "+r"(same.item));
    return same;
  }

  // Into [B, T, 3, H, D], [B, T, H, D] and [B, H, T].
  __device__ __forceinline__ std::int64_t qkv(const HeadShape& shape) const {
    return token(shape) * shape.qkv_stride + item % shape.heads * shape.dim;
  }
  __device__ __forceinline__ std::int64_t out(const HeadShape& shape) const {
    return token(shape) * shape.out_stride + item % shape.heads * shape.dim;
  }
  __device__ __forceinline__ std::int64_t row(const HeadShape& shape) const {
    return static_cast<std::int64_t>(item) * shape.tokens;
  }

 private:
  __device__ __forceinline__ std::int64_t token(const HeadShape& shape) const {
    return static_cast<std::int64_t>(item / shape.heads) * shape.tokens;
  }
};
__device__ __forceinline__ BlockHead block_head(const HeadShape& shape) {
  int index = static_cast<int>(blockIdx.x);
  return {index / shape.blocks, index % shape.blocks};
}

// What the backward pass knows of a query row: its log-sum-exp, and delta = sum of dout out. The
// kernel of dq writes it, the kernel of dk and dv reads it.
struct alignas(8) RowStatistics {
  float lse, delta;
};

// On tensor cores: bfloat16, head_dim <= kMaxTensorDim.
inline constexpr int kMaxTensorDim = 128;
void tensor_forward(CudaQueue&, const AttentionForward&);
void tensor_backward(CudaQueue&, const AttentionBackward&, RowStatistics*);

// On CUDA cores: float32, or bfloat16 computed in float32; head_dim <= kMaxPlainDim.
inline constexpr int kMaxPlainDim = 256;
void plain_forward(CudaQueue&, const AttentionForward&);
void plain_backward(CudaQueue&, const AttentionBackward&, RowStatistics*);

// With lengths or dropout, on CUDA cores; head_dim <= kMaxPlainDim.
void padded_forward(CudaQueue&, const AttentionForward&);
void padded_backward(CudaQueue&, const AttentionBackward&);

}  // namespace dtn::attention
