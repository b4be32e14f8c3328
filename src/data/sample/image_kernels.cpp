#include "data/sample/image_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/sample/instruction_set.h"
#include "data/sample/no_contraction.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

DTN_NO_CONTRACTION

namespace dtn::image_kernels {
namespace {

// Vectors of the compiler. Functions take and return them by reference, because passing them by
// value depends on the instruction set.
using Int4 = std::int32_t __attribute__((vector_size(16)));
using Double4 = double __attribute__((vector_size(32)));

#define DTN_INLINE inline __attribute__((always_inline))

namespace plain {
#define DTN_TARGET
DTN_INLINE void load_bytes(const std::uint8_t* p, Int4& v) { v = Int4{p[0], p[1], p[2], p[3]}; }
DTN_INLINE void to_double(const Int4& v, Double4& out) {
  out = __builtin_convertvector(v, Double4);
}
DTN_INLINE std::uint32_t clamped_bytes(const Double4& v) {
  std::uint32_t bytes = 0;
  for (int c = 3; c >= 0; --c)
    bytes = bytes << 8 | static_cast<std::uint32_t>(std::clamp(static_cast<int>(v[c]), 0, 255));
  return bytes;
}
#include "data/sample/affine_kernels_body.inc"
#include "data/sample/image_kernels_body.inc"
#undef DTN_TARGET
}  // namespace plain

#if defined(__x86_64__)
namespace avx2 {
#define DTN_TARGET __attribute__((target("avx2")))
DTN_TARGET DTN_INLINE void load_bytes(const std::uint8_t* p, Int4& v) {
  std::int32_t bytes;
  std::memcpy(&bytes, p, 4);
  v = reinterpret_cast<Int4>(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));
}
DTN_TARGET DTN_INLINE void to_double(const Int4& v, Double4& out) {
  out = _mm256_cvtepi32_pd(reinterpret_cast<__m128i>(v));
}
// Packing with saturation clamps.
DTN_TARGET DTN_INLINE std::uint32_t clamped_bytes(const Double4& v) {
  const __m128i words = _mm_packs_epi32(_mm256_cvttpd_epi32(v), _mm_setzero_si128());
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
}
#include "data/sample/affine_kernels_body.inc"
#include "data/sample/image_kernels_body.inc"
#undef DTN_TARGET
}  // namespace avx2

// Affine sampling has four lanes, so AVX-512 gives no gain over AVX2.
namespace avx512 {
using avx2::cubic;
using avx2::linear;
#define DTN_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#include "data/sample/image_kernels_body.inc"
#undef DTN_TARGET
}  // namespace avx512
#else
namespace avx2 = plain;
namespace avx512 = plain;
#endif

}  // namespace

const Kernels& kernels() { return best_of(plain::kKernels, avx2::kKernels, avx512::kKernels); }

}  // namespace dtn::image_kernels
