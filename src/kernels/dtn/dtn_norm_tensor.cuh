// Shared by the forward and backward kernels of the tensor-core path of DTN: the supported
// problems, the division of an image among the lanes and warps of a block, and P as operand of
// products. See dtn_norm_tensor_tile.cuh for the products.
#pragma once

#include <initializer_list>

#include "kernels/cuda/values.cuh"
#include "kernels/dtn/dtn_norm_cuda.cuh"
#include "kernels/dtn/dtn_norm_tensor_tile.cuh"

namespace dtn::tensor {

inline constexpr int kChannelMultiple = 8;  // of a head: whole 16-byte vectors
inline constexpr int kMaxChannels = 1024;   // a lane holds up to 32 values of a token

// Returns true if this path supports the problem. `tensors` are those of the storage type.
bool takes(DType dtype, DtnVariant variant, const DtnSizes& sizes,
           std::initializer_list<const void*> tensors);

// Makes the compiler reload values from memory after this call instead of keeping them in
// registers. For code that has few registers left and can afford loads from shared memory.
__device__ __forceinline__ void forget_memory() { asm volatile("" ::: "memory"); }
// Like forget_memory(). Also stops the assembler from interleaving the instructions before and
// after this call, which would need more registers. It does not synchronize data between lanes.
__device__ __forceinline__ void separate_steps() {
#ifdef __CUDA_ARCH__
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#endif
}
// Returns v. The compiler cannot compute anything from the result before this call. It therefore
// recomputes dependent values here, and keeps none in registers across the iterations of a loop.
__device__ __forceinline__ int forgotten(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Index of position (row, column) in an array over the positions, ordered by pair of elements, then
// by lane. So the lanes read their positions without bank conflicts.
__device__ __forceinline__ int slot_of(int row, int column) {
  const int pair = column / 8 * 2 + row / 8, lane = row % 8 * 4 + column % 8 / 2;
  return (pair * cuda::kWarpSize + lane) * 2 + column % 2;
}
// slot_of(row_of(e), column_of(e)).
__device__ __forceinline__ int slot_of_element(int e) {
  return ((e >> 1) * cuda::kWarpSize + lane_index()) * 2 + (e & 1);
}

// Sums two values over the warp. Lane 0 gets the sum of a, lane 1 the sum of b.
__device__ __forceinline__ float sum_two(float a, float b) {
  const bool odd = lane_index() & 1;
  float v = odd ? b : a;
  v += __shfl_xor_sync(cuda::kWholeWarp, odd ? a : b, 1);
#pragma unroll
  for (int offset = 2; offset < cuda::kWarpSize; offset *= 2) {
    v += __shfl_xor_sync(cuda::kWholeWarp, v, offset);
  }
  return v;
}

// Grid row of token t: t / width for t < 256 and width <= 16, without a division.
class GridRow {
 public:
  __device__ __forceinline__ explicit GridRow(int width) : inverse_((65535 + width) / width) {}
  __device__ __forceinline__ int operator()(int t) const { return t * inverse_ >> 16; }

 private:
  int inverse_;
};

// The tokens of a lane: the validity of its positions (inside the grid) and their offsets.
class LaneTokens {
 public:
  __device__ __forceinline__ explicit LaneTokens(const DtnSizes& sizes, int lane = lane_index())
      : column_step_(static_cast<int>(sizes.channels)), row_step_(column_step_ * sizes.grid_w) {
    first_ = row_of(0, lane) * row_step_ + column_of(0, lane) * column_step_;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (row_of(e, lane) < sizes.grid_h && column_of(e, lane) < sizes.grid_w) valid_ |= 1u << e;
    }
  }
  __device__ __forceinline__ bool valid(int e) const { return valid_ >> e & 1; }
  // Offset from the start of the image, in elements.
  __device__ __forceinline__ int offset(int e) const {
    return first_ + (e >> 1 & 1) * 8 * row_step_ + ((e >> 2) * 8 + (e & 1)) * column_step_;
  }

 private:
  int column_step_, row_step_, first_;
  unsigned valid_ = 0;
};

// Factor for a gradient before two products with Bits11. It removes the bias of dropping bits
// twice. Dropping bits reduces a number by between 0 and 2^-10 of its value, on average by
//    2^-11 / (2 ln 2).
// Each product then has errors of up to 2^-10.6. Rounding instead would cost three instructions per
// element. The factor costs none, because it is merged into existing factors.
template <class Operand>
inline constexpr float kCutMakesUp =
    std::is_same_v<Operand, Bits11> ? 1 + 2 * 0x1p-11f * 0.72134752f : 1.0f;

// Precision of the operands of products. The moments of a bfloat16 x need more than its eight bits,
// because m2 - m1^2 cancels if the local mean is far from the pivot. Gradients are rounded to
// bfloat16 in the end. The gradient of P is a sum over the whole batch, and its terms are rounded
// to 8 bits. These rounding errors are larger where variances cancel, but they have either sign.
// More bits would cost the backward pass a sixth of its speed.
template <class T>
struct Precision;
template <>
struct Precision<float> {
  using Moments = Bits22;
  using Gradients = Bits22;
  using Positions = Bits22;
};
template <>
struct Precision<bfloat16> {
  using Moments = Bits16;
  using Gradients = Bits11;
  using Positions = Bits8;
};

// Loads the [n, stride] matrix of one head and axis. Elements of the tile outside of [n, n] are
// zero; the stored rows are zero from column n on.
__device__ __forceinline__ Tile load_matrix(const DtnAxis& axis, const float* matrices, int head,
                                            int lane = lane_index()) {
  const int row = row_of(0, lane), column = column_of(0, lane);
  const float* m = matrices + head * axis.per_head() + row * axis.stride + column;
  Tile t;
#pragma unroll
  for (int e = 0; e < kElements; e += 2) {
    const int below = row_of(e, lane) - row, right = column_of(e, lane) - column;
    if (row_of(e, lane) < axis.n && column_of(e, lane) < axis.stride) {
      const float2 pair = *reinterpret_cast<const float2*>(m + below * axis.stride + right);
      t(e) = pair.x, t(e + 1) = pair.y;
    }
  }
  return t;
}

// Products with two matrices, first along the rows of the grid, then down its columns.
template <class Operand>
struct Passes {
  Operand rows, columns;

  // Contracts the columns of the grid, then its rows.
  __device__ __forceinline__ Tile operator()(const Tile& plane) const {
    return product(columns, round_to<Operand>(product(rows, round_to<Operand>(plane))));
  }
};

// x of one channel at the lane's tokens: minus the pivot and, for bfloat16, also unchanged.
template <class T>
struct Plane {
  Tile centred;
};
template <>
struct Plane<bfloat16> {
  Tile centred;
  Bits8 raw;
  float pivot;
};

// P of a head along both axes, for the moments of x of type T.
template <class T, class Operand = typename Precision<T>::Moments>
struct MomentPasses {
  Passes<Operand> p;

  MomentPasses() = default;
  __device__ __forceinline__ MomentPasses(const Tile& rows, const Tile& columns)
      : p{round_to<Operand>(rows), round_to<Operand>(columns)} {}
  __device__ __forceinline__ Tile first(const Plane<T>& x) const { return p(x.centred); }
  __device__ __forceinline__ Tile second(const Tile& squares) const { return p(squares); }
};
// A bfloat16 x is exact in one term, but x - pivot is not. So the first product takes x unchanged,
// and its sum starts with -pivot times the row sums of the rounded P. This is exact in P, and
// rounds like any float32 sum.
template <>
struct MomentPasses<bfloat16, Bits16> {
  Passes<Bits16> p;
  float row_sums[2];  // of rows g and g + 8 of P along the rows

  MomentPasses() = default;
  __device__ __forceinline__ MomentPasses(const Tile& rows, const Tile& columns)
      : p{round_to<Bits16>(rows), round_to<Bits16>(columns)}, row_sums{} {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      row_sums[e >> 1 & 1] += value_of(p.rows.low, e) + value_of(p.rows.high, e);
    }
#pragma unroll
    for (int a = 0; a < 2; ++a) {
      row_sums[a] += __shfl_xor_sync(cuda::kWholeWarp, row_sums[a], 1);
      row_sums[a] += __shfl_xor_sync(cuda::kWholeWarp, row_sums[a], 2);
    }
  }
  __device__ __forceinline__ Tile first(const Plane<bfloat16>& x) const {
    Tile turned;
#pragma unroll
    for (int e = 0; e < kElements; ++e) turned(e) = -x.pivot * row_sums[e >> 1 & 1];
    add_product(turned, p.rows.low, x.raw);
    add_product(turned, p.rows.high, x.raw);
    return product(p.columns, round_to<Bits16>(turned));
  }
  __device__ __forceinline__ Tile second(const Tile& squares) const { return p(squares); }
};

// Number of channels in a 32-bit word.
template <class T>
inline constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));

// Channel k of a word, for a k that the compiler does not know.
template <class T>
__device__ __forceinline__ float channel_of(unsigned word, int k) {
  if constexpr (kPerWord<T> == 1) return __uint_as_float(word);
#ifdef __CUDA_ARCH__
  return __uint_as_float(__byte_perm(word, 0, k ? 0x3244 : 0x1044));
#else
  return k ? cuda::high_bfloat16(word) : cuda::low_bfloat16(word);
#endif
}
// Packs the bfloat16 channels k of two words into one word.
__device__ __forceinline__ unsigned channels_of(unsigned first, unsigned second, int k) {
#ifdef __CUDA_ARCH__
  return __byte_perm(first, second, k ? 0x7632 : 0x5410);
#else
  return k ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
#endif
}
// Channel k at the lane's tokens, from their words.
template <class T>
__device__ __forceinline__ Plane<T> plane_of(const unsigned (&words)[kElements], int k,
                                             float pivot) {
  Plane<T> x;
#pragma unroll
  for (int e = 0; e < kElements; ++e) x.centred(e) = channel_of<T>(words[e], k) - pivot;
  if constexpr (kPerWord<T> == 2) {
    x.pivot = pivot;
#pragma unroll
    for (int e = 0; e < kElements; e += 2) {
      x.raw.v[e >> 1 & 1][e >> 2] = channels_of(words[e], words[e + 1], k);
    }
  }
  return x;
}

// Returns max(v, 0), and NaN for NaN.
__device__ __forceinline__ float at_least_zero(float v) {
#ifdef __CUDA_ARCH__
  float r;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(v));
  return r;
#else
  return v < 0 ? 0.0f : v;
#endif
}

// The channels of a slice at the lane's tokens, one 16-byte vector per token. The words rotate: the
// front word is used, replaced by results, and moved to the end. Register indices must be
// constants. So the loop over words is unrolled for bfloat16, which has an inner loop over the
// channels of a word. For float32 it is not unrolled, and the rotation moves registers.
template <class T>
class Vectors {
 public:
  static constexpr int kWords = 4;
  static constexpr int kUnrolled = kPerWord<T> == 1 ? 1 : kWords;

  __device__ __forceinline__ void load(int e, const T* from) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    words_[0][e] = v.x, words_[1][e] = v.y, words_[2][e] = v.z, words_[3][e] = v.w;
  }
  __device__ __forceinline__ void store(int e, T* to) const {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(words_[0][e], words_[1][e], words_[2][e], words_[3][e]);
  }
  __device__ __forceinline__ const unsigned (&front() const)[kElements] { return words_[0]; }
  // Removes the first channel of the front words and appends y, rounded, at their ends.
  __device__ __forceinline__ void replace_front(const Tile& y) {
#pragma unroll
    for (int e = 0; e < kElements; e += 2) {
      if constexpr (kPerWord<T> == 1) {
        words_[0][e] = __float_as_uint(y(e)), words_[0][e + 1] = __float_as_uint(y(e + 1));
      } else {
        const unsigned pair = cuda::pack_bfloat16(y(e), y(e + 1));
        words_[0][e] = words_[0][e] >> 16 | pair << 16;
        words_[0][e + 1] = words_[0][e + 1] >> 16 | (pair & 0xffff0000u);
      }
    }
  }
  __device__ __forceinline__ void next_word() {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const unsigned first = words_[0][e];
      words_[0][e] = words_[1][e], words_[1][e] = words_[2][e], words_[2][e] = words_[3][e];
      words_[3][e] = first;
    }
  }

 private:
  unsigned words_[kWords][kElements] = {};
};

__device__ __forceinline__ int warp_index() {
  return static_cast<int>(threadIdx.x) / cuda::kWarpSize;
}
__device__ __forceinline__ int warps_of_block() {
  return static_cast<int>(blockDim.x) / cuda::kWarpSize;
}

// Consecutive slices [begin, end) that a warp of a block processes. A slice is one vector of
// channels.
struct Share {
  int begin, end;
  __device__ __forceinline__ Share(int slices, int warps, int warp = warp_index()) {
    begin = slices * warp / warps;
    end = slices * (warp + 1) / warps;
  }
};

}  // namespace dtn::tensor
