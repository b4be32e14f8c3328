// Short vectors for the CPU kernels, on GCC/Clang vector extensions: the same source becomes
// AVX-512, AVX2 or plain code. Everything is in the namespace of its instruction set, so that the
// linker never mixes them.
//
// A Vec<T> holds kVectorBytes of T (float or double). bfloat16 is a storage type only: a load
// converts it to float, and a store rounds to nearest even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(DTN_ISA_avx512) || defined(DTN_ISA_avx2)
#include <immintrin.h>
#endif

#include "dtn/core/dtype.h"

#ifndef DTN_ISA
#define DTN_ISA isa_generic
#endif

namespace dtn::DTN_ISA {

#if defined(DTN_ISA_avx512)
inline constexpr int kVectorBytes = 64;
#elif defined(DTN_ISA_avx2)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VecType {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VecType<bfloat16> {};  // no type: keeps the templates below out of bfloat16 overloads
template <class T>
using Vec = typename VecType<T>::type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

using VecF = Vec<float>;
using VecI = Vec<std::int32_t>;
using VecU = Vec<std::uint32_t>;

template <class T>
inline Vec<T> broadcast(T value) {
  return value - Vec<T>{};  // optimised away; 0 + value would not be, as it turns -0 into 0
}

// --- load and store -----------------------------------------------------------------------------

template <class T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

inline VecF load(const bfloat16* p) {
#if defined(DTN_ISA_avx512)
  __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return (VecF)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
#elif defined(DTN_ISA_avx2)
  __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (VecF)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
#else
  VecF v;
  for (int i = 0; i < kLanes<float>; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}

inline void store(bfloat16* p, VecF v) {
#if defined(DTN_ISA_avx512)
  __m256bh h = _mm512_cvtneps_pbh((__m512)v);
  std::memcpy(p, &h, sizeof h);
#elif defined(DTN_ISA_avx2)
  __m256i u = (__m256i)v;
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  __m256 nan = _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q);
  __m256i bits =
      _mm256_srli_epi32((__m256i)_mm256_blendv_ps((__m256)rounded, (__m256)quiet, nan), 16);
  __m128i low = _mm256_castsi256_si128(bits), high = _mm256_extracti128_si256(bits, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(low, high));
#else
  for (int i = 0; i < kLanes<float>; ++i) p[i] = bfloat16(v[i]);
#endif
}

// Loads or stores the first `count` lanes, 0 < count < kLanes. The other lanes are loaded as zero
// and not written.
template <class T>
inline auto load_partial(const T* p, int count) {
  T lanes[kLanes<AccumulatorOf<T>>] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}
template <class T, class V>
inline void store_partial(T* p, V v, int count) {
  T lanes[kLanes<AccumulatorOf<T>>];
  store(lanes, v);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(T));
}
#if defined(DTN_ISA_avx512)
inline VecF load_partial(const float* p, int count) {
  return (VecF)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
inline void store_partial(float* p, VecF v, int count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
}
inline VecF load_partial(const bfloat16* p, int count) {
  __m256i h = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), p);
  return (VecF)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}
inline void store_partial(bfloat16* p, VecF v, int count) {
  __m256bh h = _mm512_cvtneps_pbh((__m512)v);
  __m256i bits;
  std::memcpy(&bits, &h, sizeof bits);
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << count) - 1), bits);
}
#endif

// Calls f(offset, count) for the vectors that cover [0, n); count is kLanes, except for the last.
template <class A, class F>
inline void for_each_vector(std::int64_t n, F&& f) {
  constexpr int lanes = kLanes<A>;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, std::integral_constant<int, lanes>{});
  if (i < n) f(i, static_cast<int>(n - i));
}
// Load or store `count` lanes; count may be the compile-time full width (see above).
template <class T, class N>
inline auto load_n(const T* p, N count) {
  if constexpr (std::is_same_v<N, int>) {
    return load_partial(p, count);
  } else {
    return load(p);
  }
}
template <class T, class V, class N>
inline void store_n(T* p, V v, N count) {
  if constexpr (std::is_same_v<N, int>) {
    store_partial(p, v, count);
  } else {
    store(p, v);
  }
}

// Returns v with the lanes from `count` on set to zero.
template <class V, class N>
inline V keep_n(V v, N count) {
  if constexpr (std::is_same_v<N, int>) {
    std::remove_cvref_t<decltype(v[0])> lanes[sizeof(V) / sizeof(v[0])];
    store(lanes, v);
    return load_partial(lanes, count);
  } else {
    return v;
  }
}

// --- arithmetic (max and min return b when either is NaN) ---------------------------------------

template <class V>
inline V max(V a, V b) {
  return a > b ? a : b;
}
template <class V>
inline V min(V a, V b) {
  return a < b ? a : b;
}
#if defined(DTN_ISA_avx512)  // the compiler does not always generate these instructions
inline VecF max(VecF a, VecF b) { return (VecF)_mm512_max_ps((__m512)a, (__m512)b); }
inline VecF min(VecF a, VecF b) { return (VecF)_mm512_min_ps((__m512)a, (__m512)b); }
#endif

// Returns the sum of the lanes, added pairwise in a fixed order.
template <class T>
inline T reduce_add_lanes(Vec<T> v) {
  constexpr int lanes = kLanes<T>;
  T s[lanes];
  std::memcpy(s, &v, sizeof v);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) s[i] += s[i + width];
  }
  return s[0];
}
inline float reduce_add(VecF v) {
#if defined(DTN_ISA_avx512)
  return _mm512_reduce_add_ps((__m512)v);
#else
  return reduce_add_lanes<float>(v);
#endif
}
inline double reduce_add(Vec<double> v) { return reduce_add_lanes<double>(v); }
// Folds segments of 2 kHalf lanes of a and b in half and interleaves the results.
template <int kHalf, class V, std::size_t... kLane>
inline V fold_segments(V a, V b, std::index_sequence<kLane...>) {
  constexpr int lanes = sizeof...(kLane);
  constexpr auto first = [](int lane) {
    int segment = lane / kHalf;
    return segment / 2 * 2 * kHalf + lane % kHalf + segment % 2 * lanes;
  };
  return __builtin_shufflevector(a, b, first(kLane)...) +
         __builtin_shufflevector(a, b, (first(kLane) + kHalf)...);
}
template <int kHalf, class T>
inline void fold_all(Vec<T>* v) {
  for (int k = 0; k < kHalf; ++k) {
    v[k] = fold_segments<kHalf>(v[k], v[k + kHalf], std::make_index_sequence<kLanes<T>>{});
  }
  if constexpr (kHalf > 1) fold_all<kHalf / 2, T>(v);
}

// Returns a vector whose lane k is the sum of the lanes of the k-th of kLanes vectors stored at p.
template <class T>
inline Vec<T> reduce_add_each(const T* p) {
  constexpr int lanes = kLanes<T>;
  Vec<T> v[lanes];
  for (int k = 0; k < lanes; ++k) v[k] = load(p + k * lanes);
  fold_all<lanes / 2, T>(v);
  return v[0];
}
template <class V>
inline auto reduce_max(V v) {
  auto m = v[0];
  for (unsigned i = 1; i < sizeof(V) / sizeof(m); ++i) m = v[i] > m ? v[i] : m;
  return m;
}
#if defined(DTN_ISA_avx512)
inline float reduce_max(VecF v) { return _mm512_reduce_max_ps((__m512)v); }
#endif

inline VecF sqrt(VecF v) {
#if defined(DTN_ISA_avx512)
  return (VecF)_mm512_sqrt_ps((__m512)v);
#elif defined(DTN_ISA_avx2)
  return (VecF)_mm256_sqrt_ps((__m256)v);
#else
  VecF r;
  for (int i = 0; i < kLanes<float>; ++i) r[i] = std::sqrt(v[i]);
  return r;
#endif
}
inline Vec<double> sqrt(Vec<double> v) {
  Vec<double> r;
  for (int i = 0; i < kLanes<double>; ++i) r[i] = std::sqrt(v[i]);
  return r;
}

// 1 / sqrt(v) to about one unit in the last place, from the hardware estimate and Newton steps.
inline VecF rsqrt(VecF v) {
#if defined(DTN_ISA_avx512)
  VecF r = (VecF)_mm512_rsqrt14_ps((__m512)v);
  return r + 0.5f * r * (1.0f - v * r * r);
#elif defined(DTN_ISA_avx2)
  VecF r = (VecF)_mm256_rsqrt_ps((__m256)v);
  r = r + 0.5f * r * (1.0f - v * r * r);
  return r + 0.5f * r * (1.0f - v * r * r);
#else
  return 1.0f / sqrt(v);
#endif
}
inline Vec<double> rsqrt(Vec<double> v) { return 1.0 / sqrt(v); }

// e^v. float32: v = n ln 2 + r, |r| <= ln 2 / 2, a polynomial in r, then 2^n through the exponent
// bits. Below -87.3 the result is 0, above 88.4 it saturates. float64: the library function.
inline VecF exp(VecF v) {
  // The operand order of max and min keeps NaN.
  VecF x = max(broadcast(-87.3365f), min(broadcast(88.376f), v));
  VecF n = x * 1.44269504088896341f + 12582912.0f;  // rounds to integer in the low mantissa bits
  VecU exponent = (VecU)n << 23;                    // unsigned, because a NaN may wrap
  n = n - 12582912.0f;
  VecF r = x - n * 0.693145751953125f;
  r = r - n * 1.42860682030941723e-6f;
  VecF p = broadcast(1.0f / 5040);
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  VecF result = (VecF)((VecU)p + exponent);
  result = v < -87.3365f ? VecF{} : result;
  return v == v ? result : v;
}
inline Vec<double> exp(Vec<double> v) {
  for (int i = 0; i < kLanes<double>; ++i) v[i] = std::exp(v[i]);
  return v;
}

}  // namespace dtn::DTN_ISA
