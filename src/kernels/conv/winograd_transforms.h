// The matrices A, B and G of winograd.h, applied to vectors of channels. They follow from Toom and
// Cook's method with the points 0, a, -a, b, -b and infinity:
//    (B^T d)_p = coefficients of the product of (x - q) over the other finite points q, times d
//    (A^T m)_i = sum over p of p^i m_p              the point infinity adds m_5 to the last
//    (G g)_p   = sum over k of p^k g_k / N_p        N_p = product of (p - q) over the others
// With a = 2/3 and b = 3/2 the error in float32 is half that of the usual a = 1 and b = 2, whose
// powers differ more.
#pragma once

#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {

inline constexpr int kWinogradOutputs = 4, kWinogradInputs = 6, kWinogradTaps = 3;
inline constexpr int kWinogradPoints = kWinogradInputs * kWinogradInputs;

// Constants of the transforms in the type of the sums.
template <class A>
struct WinogradConstants {
  static constexpr double kA = 2.0 / 3, kB = 3.0 / 2;
  static constexpr A a = A(kA), a2 = A(kA * kA), a3 = A(kA * kA * kA);
  static constexpr A b = A(kB), b2 = A(kB * kB), b3 = A(kB * kB * kB);
  static constexpr A sum = A(kA * kA + kB * kB);  // the product a^2 b^2 is 1
  // 1 / N_a and 1 / N_b
  static constexpr double kNa = 1 / (2 * kA * kA * (kA * kA - kB * kB));
  static constexpr double kNb = 1 / (2 * kB * kB * (kB * kB - kA * kA));
  static constexpr A na = A(kNa), na1 = A(kNa * kA), na2 = A(kNa * kA * kA);
  static constexpr A nb = A(kNb), nb1 = A(kNb * kB), nb2 = A(kNb * kB * kB);
};

// Each of these multiplies a column by one of the matrices.

template <class A>
struct InputTransform {  // B^T
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradInputs;
  using K = WinogradConstants<A>;
  [[gnu::always_inline]] static void apply(const Vec<A> (&d)[kFrom], Vec<A> (&v)[kTo]) {
    const Vec<A> even_a = d[4] - K::b2 * d[2], odd_a = K::a * (d[3] - K::b2 * d[1]);
    const Vec<A> even_b = d[4] - K::a2 * d[2], odd_b = K::b * (d[3] - K::a2 * d[1]);
    v[0] = d[0] - K::sum * d[2] + d[4];
    v[1] = even_a + odd_a, v[2] = even_a - odd_a;
    v[3] = even_b + odd_b, v[4] = even_b - odd_b;
    v[5] = d[1] - K::sum * d[3] + d[5];
  }
};

template <class A>
struct OutputTransform {  // A^T
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradOutputs;
  using K = WinogradConstants<A>;
  [[gnu::always_inline]] static void apply(const Vec<A> (&m)[kFrom], Vec<A> (&y)[kTo]) {
    const Vec<A> even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Vec<A> even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = K::a * odd_a + K::b * odd_b;
    y[2] = K::a2 * even_a + K::b2 * even_b;
    y[3] = K::a3 * odd_a + K::b3 * odd_b + m[5];
  }
};

template <class A>
struct OutputGradientTransform {  // A
  static constexpr int kFrom = kWinogradOutputs, kTo = kWinogradInputs;
  using K = WinogradConstants<A>;
  [[gnu::always_inline]] static void apply(const Vec<A> (&dy)[kFrom], Vec<A> (&v)[kTo]) {
    const Vec<A> even_a = dy[0] + K::a2 * dy[2], odd_a = K::a * dy[1] + K::a3 * dy[3];
    const Vec<A> even_b = dy[0] + K::b2 * dy[2], odd_b = K::b * dy[1] + K::b3 * dy[3];
    v[0] = dy[0];
    v[1] = even_a + odd_a, v[2] = even_a - odd_a;
    v[3] = even_b + odd_b, v[4] = even_b - odd_b;
    v[5] = dy[3];
  }
};

template <class A>
struct KernelTransform {  // G
  static constexpr int kFrom = kWinogradTaps, kTo = kWinogradInputs;
  using K = WinogradConstants<A>;
  [[gnu::always_inline]] static void apply(const Vec<A> (&g)[kFrom], Vec<A> (&u)[kTo]) {
    const Vec<A> even_a = K::na * g[0] + K::na2 * g[2], odd_a = K::na1 * g[1];
    const Vec<A> even_b = K::nb * g[0] + K::nb2 * g[2], odd_b = K::nb1 * g[1];
    u[0] = g[0];
    u[1] = even_a + odd_a, u[2] = even_a - odd_a;
    u[3] = even_b + odd_b, u[4] = even_b - odd_b;
    u[5] = g[2];
  }
};

template <class A>
struct KernelGradientTransform {  // G^T
  static constexpr int kFrom = kWinogradInputs, kTo = kWinogradTaps;
  using K = WinogradConstants<A>;
  [[gnu::always_inline]] static void apply(const Vec<A> (&u)[kFrom], Vec<A> (&dg)[kTo]) {
    const Vec<A> even_a = u[1] + u[2], odd_a = u[1] - u[2];
    const Vec<A> even_b = u[3] + u[4], odd_b = u[3] - u[4];
    dg[0] = u[0] + K::na * even_a + K::nb * even_b;
    dg[1] = K::na1 * odd_a + K::nb1 * odd_b;
    dg[2] = K::na2 * even_a + K::nb2 * even_b + u[5];
  }
};

// Multiplies a square by a matrix from the left and by its transpose from the right.
// load(i, j) returns an element, store(i, j, v) takes one.
template <class A, template <class> class Transform, class Load, class Store>
[[gnu::always_inline]] inline void transform_square(const Load& load, const Store& store) {
  using T = Transform<A>;
  Vec<A> columns[T::kFrom][T::kTo];
#pragma GCC unroll 6
  for (int j = 0; j < T::kFrom; ++j) {
    Vec<A> column[T::kFrom];
#pragma GCC unroll 6
    for (int i = 0; i < T::kFrom; ++i) column[i] = load(i, j);
    T::apply(column, columns[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < T::kTo; ++i) {
    Vec<A> row[T::kFrom], result[T::kTo];
#pragma GCC unroll 6
    for (int j = 0; j < T::kFrom; ++j) row[j] = columns[j][i];
    T::apply(row, result);
#pragma GCC unroll 6
    for (int j = 0; j < T::kTo; ++j) store(i, j, result[j]);
  }
}

}  // namespace dtn::DTN_ISA
