// Tensor-core products of one warp and their operand moves, from compute capability 8.0 on.
// Fragment layouts follow the PTX manual ("Matrix multiply-accumulate operation using mma
// instruction"). Lane l has g = l / 4 and t = l % 4. All functions are collective over the 32
// lanes.
//
//    m16n8k16, bfloat16 (pairs, lower k in the lower half):
//      A [16, 16]: a0 (g, 2t..) a1 (g + 8, 2t..) a2 (g, 2t + 8..) a3 (g + 8, 2t + 8..)
//      B [16, 8]:  b0 (k 2t.., n g) b1 (k 2t + 8.., n g)
//    m16n8k8, tf32:
//      A [16, 8]:  a0 (g, t) a1 (g + 8, t) a2 (g, t + 4) a3 (g + 8, t + 4)
//      B [8, 8]:   b0 (k t, n g) b1 (k t + 4, n g)
//    both, float32: C [16, 8]: c0 (g, 2t) c1 (g, 2t + 1) c2 (g + 8, 2t) c3 (g + 8, 2t + 1)
#pragma once

#include "kernels/cuda/values.cuh"

namespace dtn::cuda {

#ifdef DTN_CUDA_EMULATED
namespace detail {
struct Operands {
  unsigned a[4], b[2];
  float c[4];
};

// Product of a whole warp, computed by one of its lanes. value(r, i) is number i of the PerRegister
// numbers in register r.
template <int PerRegister, class Value>
inline void emulate_mma(const char* what, float (&c)[4], const unsigned (&a)[4],
                        const unsigned (&b)[2], const Value& value) {
  constexpr int kDepth = 8 * PerRegister;
  using Row = float __attribute__((vector_size(8 * sizeof(float))));  // row of B and C
  const Operands mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {c[0], c[1], c[2], c[3]}};
  const Operands done = emu::compute_together(what, mine, [&](const auto& of) {
    float ma[16][kDepth];
    Row mb[kDepth];
    for (int lane = 0; lane < 32; ++lane) {
      const Operands& o = of(lane);
      int g = lane / 4, t = lane % 4;
      for (int i = 0; i < PerRegister; ++i) {
        int k = PerRegister * t + i;
        for (int r = 0; r < 4; ++r) ma[g + r % 2 * 8][k + r / 2 * kDepth / 2] = value(o.a[r], i);
        for (int r = 0; r < 2; ++r) mb[k + r * kDepth / 2][g] = value(o.b[r], i);
      }
    }
    const int at_once = emu::device_model().products_at_once * PerRegister / 2;
    for (int row = 0; row < 16; ++row) {
      if (at_once > 0) {
        for (int n = 0; n < 8; ++n) {
          float& sum = of(row % 8 * 4 + n / 2).c[n % 2 + row / 8 * 2];
          float column[kDepth];
          for (int k = 0; k < kDepth; ++k) column[k] = mb[k][n];
          for (int k = 0; k < kDepth; k += at_once) {
            sum = emu::add_truncating(sum, ma[row] + k, column + k, at_once);
          }
        }
        continue;
      }
      Row sums = {};
      for (int k = 0; k < kDepth; ++k) sums += ma[row][k] * mb[k];
      for (int n = 0; n < 8; ++n) of(row % 8 * 4 + n / 2).c[n % 2 + row / 8 * 2] += sums[n];
    }
  });
  for (int i = 0; i < 4; ++i) c[i] = done.c[i];
}
}  // namespace detail
#endif

// c += a b with bfloat16 operands.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2]) {
#ifdef DTN_CUDA_EMULATED
  detail::emulate_mma<2>("mma_bf16", c, a, b, [](unsigned pair, int upper) {
    return upper ? high_bfloat16(pair) : low_bfloat16(pair);
  });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Rounds to the nearest number with 10 fraction bits, ties away from zero.
__device__ __forceinline__ unsigned to_tf32(float v) {
#ifdef __CUDA_ARCH__
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
#else
  unsigned bits = __float_as_uint(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  return (bits + 0x1000u) & 0xffffe000u;
#endif
}

// c += a b with tf32 operands from to_tf32().
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2]) {
#ifdef DTN_CUDA_EMULATED
  // The hardware reads the upper 19 bits.
  detail::emulate_mma<1>("mma_tf32", c, a, b,
                         [](unsigned v, int) { return __uint_as_float(v & 0xffffe000u); });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Loads four 8 x 8 matrices of 2-byte values from shared memory. Lane l passes the address of
// row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned). For matrix i it gets in r[i] the values
// (g, 2t) and (g, 2t + 1), or with `Transpose` the values (2t, g) and (2t + 1, g).
template <bool Transpose>
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const void* row) {
#ifdef DTN_CUDA_EMULATED
  emu::WarpView<const void*> warp("load_matrices", row);
  int g = emu::lane() / 4, t = emu::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    std::uint16_t v[2];
    for (int j = 0; j < 2; ++j) {
      int from_row = Transpose ? 2 * t + j : g, column = Transpose ? g : 2 * t + j;
      v[j] = static_cast<const std::uint16_t*>(warp.lane(i * 8 + from_row))[column];
    }
    r[i] = v[0] | static_cast<unsigned>(v[1]) << 16;
  }
#else
  auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Transpose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
#endif
}

// Transposes an 8 x 8 matrix of 2-byte values in registers. Lane l holds (g, 2t..), the lower
// column in the lower half, before and after.
__device__ __forceinline__ unsigned transpose_matrix(unsigned pair) {
#ifdef DTN_CUDA_EMULATED
  emu::WarpView<unsigned> warp("transpose_matrix", pair);
  int g = emu::lane() / 4, t = emu::lane() % 4;
  unsigned v[2];
  for (int j = 0; j < 2; ++j) v[j] = warp.lane((2 * t + j) * 4 + g / 2) >> g % 2 * 16 & 0xffffu;
  return v[0] | v[1] << 16;
#else
  unsigned r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
  return r;
#endif
}

// 2^x to 2 units in the last place; 0 for -inf.
__device__ __forceinline__ float exp2_approximate(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

// 1 / x to one unit in the last place; 0 for infinities.
__device__ __forceinline__ float reciprocal_approximate(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// 1 / sqrt(x) to 2 units in the last place, for x that is 0 or at least the smallest normal number.
__device__ __forceinline__ float rsqrt_approximate(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / std::sqrt(x);
#endif
}

}  // namespace dtn::cuda
