// The exponential and logarithm of attention, in base 2. So the range reduction is exact, and the
// factor log2(e) becomes part of the scale of the scores.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_pack.h"

namespace dtn::DTN_ISA {

inline constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.69314718055994530942;

// Returns a where a > b, else b, so b if either is NaN. This is one instruction, which GCC does not
// generate from ?: here.
inline VecF larger(VecF a, VecF b) {
#if defined(DTN_ISA_avx512)
  return (VecF)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(DTN_ISA_avx2)
  return (VecF)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
inline Vec<double> larger(Vec<double> a, Vec<double> b) { return a > b ? a : b; }

// x[i] = 2^x[i] for |x[i]| <= 1/2, by minimax polynomials with 2^0 = 1 exactly. The relative error
// is 2e-9, or 3e-6 if the result is rounded to bfloat16.
template <class E, int N>
[[gnu::always_inline]] inline void exp2_fraction(VecF (&x)[N]) {
  constexpr float kFloat[] = {0.00015347320103209126f,
                              0.001340015445419241f,
                              0.009618484243444489f,
                              0.05550328081618591f,
                              0.24022646920149984f,
                              0.6931472061690364f,
                              1.0f};
  constexpr float kBf16[] = {0.009570101911157891f, 0.055917860319386774f, 0.2402474482786401f,
                             0.6931218147366895f, 1.0f};
  constexpr bool bf16 = std::is_same_v<E, Bf16Pair>;
  constexpr int terms = bf16 ? 5 : 7;
  VecF p[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) p[i] = broadcast(bf16 ? kBf16[0] : kFloat[0]);
#pragma GCC unroll 8
  for (int k = 1; k < terms; ++k) {
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) p[i] = p[i] * x[i] + (bf16 ? kBf16[k] : kFloat[k]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = p[i];
}

// z[i] = 2^z[i]; 0 for -infinity, NaN for NaN. All vectors advance together, step by step. One
// after the other, their long dependency chains would fill the processor's reorder window.
template <class E, int N>
[[gnu::always_inline]] inline void exp2(VecF (&z)[N]) {
  VecF n[N];
#if defined(DTN_ISA_avx512)
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    z[i] = larger(broadcast(-1000.0f), z[i]);  // -infinity - -infinity would be NaN
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    n[i] = (VecF)_mm512_roundscale_ps((__m512)z[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) z[i] = z[i] - n[i];
  exp2_fraction<E>(z);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) z[i] = (VecF)_mm512_scalef_ps((__m512)z[i], (__m512)n[i]);
#else
  // Below the normal range the result is 0; from 2^128 on the exponent bits are those of infinity.
  VecF x[N];
  for (int i = 0; i < N; ++i) {
    x[i] = larger(broadcast(-126.0f), z[i] < 128.0f  ? z[i]
                                      : z[i] == z[i] ? broadcast(128.0f)
                                                     : z[i]);
    n[i] = x[i] + 12582912.0f;  // rounds to an integer in the low mantissa bits
    x[i] = x[i] - (n[i] - 12582912.0f);
  }
  exp2_fraction<E>(x);
  for (int i = 0; i < N; ++i) {
    VecF result = (VecF)((VecU)x[i] + ((VecU)n[i] << 23));
    result = z[i] < -126.0f ? VecF{} : result;
    z[i] = z[i] == z[i] ? result : z[i];
  }
#endif
}
template <class E, int N>
inline void exp2(Vec<double> (&z)[N]) {
  for (int i = 0; i < N; ++i) {
    for (int lane = 0; lane < kLanes<double>; ++lane) z[i][lane] = __builtin_exp2(z[i][lane]);
  }
}

// ln(x) of a normal x > 0; NaN for NaN. x = 2^e m with m in [2^-1/2, 2^1/2) and
// ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: the series to s^9 has error 1e-9.
inline VecF log_positive(VecF x) {
  VecU bits = (VecU)x - 0x3f3504f3u;  // 2^-1/2
  VecI exponent = (VecI)bits >> 23;
  VecF m = (VecF)((bits & 0x7fffffu) + 0x3f3504f3u);
  VecF s = (m - 1.0f) / (m + 1.0f);
  VecF t = s * s;
  VecF p = t * (2.0f / 9) + 2.0f / 7;
  p = p * t + 2.0f / 5;
  p = p * t + 2.0f / 3;
  VecF result =
      __builtin_convertvector(exponent, VecF) * static_cast<float>(kLn2) + (p * t * s + 2.0f * s);
  return x > 0.0f ? result : x;
}
inline Vec<double> log_positive(Vec<double> x) {
  Vec<double> r;
  for (int i = 0; i < kLanes<double>; ++i) r[i] = __builtin_log(x[i]);
  return r;
}

// Replaces N vectors of scores, from s[j] on, by 2^(s - shift) as elements of E, and returns their
// sum. Pairs of bfloat16 need half the space, so they never overwrite scores still to be read.
template <class E, int N>
[[gnu::always_inline]] inline Vec<Accumulator<E>> exponentials(Accumulator<E>* s, std::int64_t j,
                                                               Vec<Accumulator<E>> shift) {
  using A = Accumulator<E>;
  Vec<A> x[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) x[i] = load(s + j + i * kWidth<E>) - shift;
  exp2<E>(x);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    if constexpr (std::is_same_v<E, Bf16Pair>) {
      store(reinterpret_cast<bfloat16*>(s) + j + i * kWidth<E>, x[i]);
    } else {
      store(s + j + i * kWidth<E>, x[i]);
    }
  }
  if constexpr (N == 4) return (x[0] + x[1]) + (x[2] + x[3]);
  return x[0];
}

// State of each row of scores after some of its keys.
template <class A>
struct RowStates {
  A* largest;
  A* sum;      // of 2^(score - largest)
  A* rescale;  // factor for sums over earlier keys
};

// Adds `count` more keys to the state of every row. Replaces their base-2 scores s [rows, ld] by
// 2^(s - largest) as elements of E. Scores past the last key must be -infinity, and count a
// multiple of kWidth. `rescale` is not written for the first keys. There are three loops over the
// rows, because the maximum, exponentials and sum of a single row wait for each other.
template <class E>
inline void softmax_rows(Accumulator<E>* s, std::int64_t ld, std::int64_t rows, std::int64_t count,
                         bool first, RowStates<Accumulator<E>> state) {
  using A = Accumulator<E>;
  constexpr std::int64_t L = kWidth<E>;
  const A infinity = static_cast<A>(__builtin_inf());
  for (std::int64_t r = 0; r < rows; ++r) {
    Vec<A> top = load(s + r * ld);
    for (std::int64_t j = L; j < count; j += L) top = larger(top, load(s + r * ld + j));
    A m = reduce_max(top);
    if (!first) {
      A before = state.largest[r];
      m = before > m ? before : m;
      state.rescale[r] = before - (m == -infinity ? A{0} : m);
    }
    state.largest[r] = m;
  }
  for (std::int64_t r = 0; r < rows && !first; r += L) {
    Vec<A> z[1] = {load(state.rescale + r)};
    exp2<E>(z);
    store(state.rescale + r, z[0]);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    A* row = s + r * ld;
    A m = state.largest[r];
    Vec<A> shift = broadcast(m == -infinity ? A{0} : m);  // avoids -infinity - -infinity
    Vec<A> total{};
    std::int64_t j = 0;
    for (; j + 4 * L <= count; j += 4 * L) total += exponentials<E, 4>(row, j, shift);
    for (; j < count; j += L) total += exponentials<E, 1>(row, j, shift);
    A sum = reduce_add(total);
    state.sum[r] = first ? sum : state.sum[r] * state.rescale[r] + sum;
  }
}

}  // namespace dtn::DTN_ISA
