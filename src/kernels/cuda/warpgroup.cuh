// Tensor-core products of a warpgroup, four consecutive warps (wgmma), for compute capability 9.0,
// where only these products reach the full rate. They run asynchronously to the warps that issue
// them, and read the right operand, or both, from shared memory.
//
//    WarpgroupProducts products;                one per thread
//    products.begin();                          orders earlier register accesses
//    products.multiply(d, a, b, false); ...     d = a b; with true, d += a b
//    products.commit();                         closes a group
//    products.wait<0>(d);                       all groups are done, and d may be read
//
// Between multiply and wait, no thread may touch d, the registers of a, or the shared memory of a
// and b. All 128 threads take part in each call. With the fragments of tensor_core.cuh, warp w of
// the group holds rows 16 w to 16 w + 15 of d [64, N], with columns 8 n to 8 n + 7 in d[n], and
// likewise of a [64, 16].
//
// Layouts and encodings follow the PTX manual, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Operation".
// Multiply-Accumulate Operation".
#pragma once

#include "kernels/cuda/values.cuh"

#ifdef DTN_CUDA_EMULATED
#include "cuda_emulator/warpgroup.h"
#else
#include "kernels/cuda/warpgroup_ptx.cuh"
#endif

namespace dtn::cuda {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;  // rows of a product

// Offset of a value in a bfloat16 matrix [rows, columns] in shared memory, in the layout without
// swizzle for these products. The matrix consists of core matrices of 8 x 8 values (eight rows of
// 16 bytes, 128 bytes); core matrices of the same eight rows are consecutive. A core matrix uses
// each bank once in every kind of read, and products can sum the same matrix over its columns or
// over its rows.
inline constexpr int kCoreValues = 64;
__device__ __forceinline__ int core_offset(int row, int column, int columns) {
  return (row / 8 * (columns / 8) + column / 8) * kCoreValues + row % 8 * 8 + column % 8;
}

// Dimension of a matrix in shared memory over which a product sums.
enum class Depth { kColumns, kRows };

// An operand in shared memory: 16 steps of depth from its start.
template <Depth kDepth>
class SharedOperand {
 public:
  // `first` is the first value of a core matrix, in a matrix of `columns` columns.
  __device__ __forceinline__ SharedOperand(const bfloat16* first, int columns) {
    const unsigned row_step = static_cast<unsigned>(columns) * 16, column_step = 128;
    const unsigned depth_step = kDepth == Depth::kColumns ? column_step : row_step;
    const unsigned other_step = kDepth == Depth::kColumns ? row_step : column_step;
#ifdef DTN_CUDA_EMULATED
    const unsigned address = emu::shared_address(first);
#else
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(first));
#endif
    low_ = encoded(address) | encoded(depth_step) << 16;
    high_ = encoded(other_step);
    step_ = encoded(2 * depth_step);
  }

  // Returns the operand that starts 16 `sixteens` further along the depth.
  __device__ __forceinline__ SharedOperand after(int sixteens) const {
    SharedOperand next = *this;
    next.low_ += step_ * static_cast<unsigned>(sixteens);
    return next;
  }

  __device__ __forceinline__ std::uint64_t descriptor() const {
    return static_cast<std::uint64_t>(high_) << 32 | low_;
  }

 private:
  // matrix-descriptor-encode of the manual.
  static __device__ __forceinline__ unsigned encoded(unsigned bytes) {
    return (bytes & 0x3ffffu) >> 4;
  }

  unsigned low_, high_, step_;
};

// Makes all writes of the block's threads to shared memory, including the copies that they have
// waited for, visible to each other and to products.
__device__ __forceinline__ void sync_for_products() {
#ifndef DTN_CUDA_EMULATED
  detail::fence_proxy_async();
#endif
  __syncthreads();
}

#ifdef DTN_CUDA_EMULATED
class WarpgroupProducts {
 public:
  void begin() { pending_.begin(); }

  template <int N, Depth kB>
  void multiply(float (&d)[N][4], const unsigned (&a)[4], const SharedOperand<kB>& b, bool add) {
    pending_.multiply({&d[0][0], 8 * N, add}, {a, 0, false},
                      {nullptr, b.descriptor(), kB == Depth::kRows});
  }
  template <int N, Depth kA, Depth kB>
  void multiply(float (&d)[N][4], const SharedOperand<kA>& a, const SharedOperand<kB>& b,
                bool add) {
    pending_.multiply({&d[0][0], 8 * N, add}, {nullptr, a.descriptor(), kA == Depth::kRows},
                      {nullptr, b.descriptor(), kB == Depth::kRows});
  }

  void commit() { pending_.commit(); }
  template <int kGroups, class... D>
  void wait(D&...) {
    pending_.wait(kGroups);
  }

 private:
  emu::PendingProducts pending_;
};
#else
class WarpgroupProducts {
 public:
  __device__ __forceinline__ void begin() { detail::wgmma_fence(); }

  template <int N, Depth kB>
  __device__ __forceinline__ void multiply(float (&d)[N][4], const unsigned (&a)[4],
                                           const SharedOperand<kB>& b, bool add) {
    detail::wgmma<kB == Depth::kRows>(d, a, b.descriptor(), add);
  }
  template <int N, Depth kA, Depth kB>
  __device__ __forceinline__ void multiply(float (&d)[N][4], const SharedOperand<kA>& a,
                                           const SharedOperand<kB>& b, bool add) {
    detail::wgmma<kA == Depth::kRows, kB == Depth::kRows>(d, a.descriptor(), b.descriptor(), add);
  }

  __device__ __forceinline__ void commit() { detail::wgmma_commit(); }
  template <int kGroups, class... D>
  __device__ __forceinline__ void wait(D&... results) {
    detail::wgmma_wait<kGroups>();
    (detail::settle(results), ...);
  }
};
#endif

}  // namespace dtn::cuda
