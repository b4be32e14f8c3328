#include "data/sample/resample_kernels.h"

#include <algorithm>
#include <cstring>

#include "data/sample/instruction_set.h"

#if defined(__x86_64__)
#if !defined( \
    __clang__)  // gcc 12 warns about the intentionally undefined operands in its own header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace dtn::resample {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t weigh_byte(const std::uint8_t* in, std::int64_t stride, const std::int32_t* weights,
                        int n) {
  std::int32_t sum = kHalf;
  for (int k = 0; k < n; ++k) sum += in[k * stride] * weights[k];
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

#define DTN_INLINE inline __attribute__((always_inline))

namespace plain {
#define DTN_TARGET
struct Ints {
  std::int32_t v[16];
};
DTN_INLINE Ints fill(std::int32_t x) {
  Ints r;
  for (std::int32_t& v : r.v) v = x;
  return r;
}
DTN_INLINE Ints load(const std::uint8_t* p) {
  Ints r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
DTN_INLINE Ints add_product(Ints sum, const Ints& v, std::int32_t weight) {
  for (int i = 0; i < 16; ++i) sum.v[i] += v.v[i] * weight;
  return sum;
}
DTN_INLINE void store_rounded(const Ints& sum, std::uint8_t* p) {
  for (int i = 0; i < 16; ++i)
    p[i] = static_cast<std::uint8_t>(std::clamp(sum.v[i] >> kWeightBits, 0, 255));
}
#include "data/sample/resample_body.inc"
#undef DTN_TARGET
}  // namespace plain

#if defined(__x86_64__)
namespace avx2 {
#define DTN_TARGET __attribute__((target("avx2")))
struct Ints {
  __m256i low, high;
};
DTN_TARGET DTN_INLINE Ints fill(std::int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
DTN_TARGET DTN_INLINE __m256i load_half(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
DTN_TARGET DTN_INLINE Ints load(const std::uint8_t* p) { return {load_half(p), load_half(p + 8)}; }
DTN_TARGET DTN_INLINE Ints add_product(const Ints& sum, const Ints& v, std::int32_t weight) {
  const __m256i w = _mm256_set1_epi32(weight);
  return {_mm256_add_epi32(sum.low, _mm256_mullo_epi32(v.low, w)),
          _mm256_add_epi32(sum.high, _mm256_mullo_epi32(v.high, w))};
}
// Packing with saturation clamps.
DTN_TARGET DTN_INLINE void store_rounded(const Ints& sum, std::uint8_t* p) {
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(sum.low, kWeightBits),
                                                  _mm256_srai_epi32(sum.high, kWeightBits)),
                               0xD8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
#include "data/sample/resample_body.inc"
#undef DTN_TARGET
}  // namespace avx2

namespace avx512 {
#define DTN_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
using Ints = __m512i;
DTN_TARGET DTN_INLINE Ints fill(std::int32_t x) { return _mm512_set1_epi32(x); }
DTN_TARGET DTN_INLINE Ints load(const std::uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
DTN_TARGET DTN_INLINE Ints add_product(Ints sum, Ints v, std::int32_t weight) {
  return _mm512_add_epi32(sum, _mm512_mullo_epi32(v, _mm512_set1_epi32(weight)));
}
DTN_TARGET DTN_INLINE void store_rounded(Ints sum, std::uint8_t* p) {
  const Ints v = _mm512_max_epi32(_mm512_srai_epi32(sum, kWeightBits), _mm512_setzero_si512());
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(v));
}
#include "data/sample/resample_body.inc"
#undef DTN_TARGET
}  // namespace avx512
#else
namespace avx2 = plain;
namespace avx512 = plain;
#endif

// Vectors of the compiler: 16 bytes fit the registers of every x86-64.
using Bytes = std::uint8_t __attribute__((vector_size(16)));

// Transposes a 16 x 16 block of bytes in four rounds. Each round interleaves the first half of the
// rows with the second.
DTN_INLINE void transpose_block(Bytes (&rows)[16]) {
  for (int round = 0; round < 4; ++round) {
    Bytes next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                            5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                                12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

}  // namespace

void transpose_in(const std::uint8_t* from, std::int64_t stride, int rows, int samples,
                  std::uint8_t* columns) {
  for (int i = 0; i < samples; i += kLanes, columns += kLanes * kLanes) {
    const int n = std::min(kLanes, samples - i);
    Bytes block[16];
    for (int r = 0; r < kLanes; ++r) {
      const std::uint8_t* row = from + std::min(r, rows - 1) * stride + i;
      if (n == kLanes) {
        std::memcpy(&block[r], row, kLanes);
      } else {
        block[r] = Bytes{};
        std::memcpy(&block[r], row, static_cast<std::size_t>(n));
      }
    }
    transpose_block(block);
    std::memcpy(columns, block, sizeof block);
  }
}

void transpose_out(const std::uint8_t* columns, int rows, int samples, std::uint8_t* to,
                   std::int64_t stride) {
  for (int i = 0; i < samples; i += kLanes, columns += kLanes * kLanes) {
    const auto n = static_cast<std::size_t>(std::min(kLanes, samples - i));
    Bytes block[16];
    std::memcpy(block, columns, sizeof block);
    transpose_block(block);
    for (int r = 0; r < rows; ++r) {
      if (n == kLanes) {
        std::memcpy(to + r * stride + i, &block[r], kLanes);
      } else {
        std::memcpy(to + r * stride + i, &block[r], n);
      }
    }
  }
}

void weigh_columns(const std::uint8_t* columns, int first, int channels, const Span* spans,
                   const std::int32_t* weights, int taps, int count, std::uint8_t* out) {
  best_of(plain::weigh_columns, avx2::weigh_columns, avx512::weigh_columns)(
      columns, first, channels, spans, weights, taps, count, out);
}

void weigh_rows(const std::uint8_t* rows, std::int64_t stride, int first, std::int64_t bytes,
                const Span* spans, const std::int32_t* weights, int taps, int count,
                std::uint8_t* out) {
  best_of(plain::weigh_rows, avx2::weigh_rows, avx512::weigh_rows)(
      rows, stride, first, bytes, spans, weights, taps, count, out);
}

}  // namespace dtn::resample
