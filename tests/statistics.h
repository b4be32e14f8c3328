// Probabilities of samples under the distributions that they should have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace dtn::test {

// Returns the probability of a larger Kolmogorov-Smirnov distance, for `effective` independent
// samples.
inline double p_of_distance(double distance, double effective) {
  const double root = std::sqrt(effective), x = (root + 0.12 + 0.11 / root) * distance;
  double p = 0;
  for (int k = 1; k <= 100; ++k) p += (k % 2 ? 2 : -2) * std::exp(-2.0 * k * k * x * x);
  return std::clamp(x < 0.2 ? 1 : p, 0.0, 1.0);
}

// Returns the p-value for values that should be uniform in [0, 1].
inline double p_uniform(std::vector<double> u) {
  std::ranges::sort(u);
  const auto n = static_cast<double>(u.size());
  double distance = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, u[i] - rank / n, (rank + 1) / n - u[i]});
  }
  return p_of_distance(distance, n);
}

// Returns the p-value for two samples that should have the same distribution, which may have atoms.
inline double p_same(std::vector<double> a, std::vector<double> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  double distance = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double at = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == at) ++i;
    while (j < b.size() && b[j] == at) ++j;
    distance =
        std::max(distance, std::abs(static_cast<double>(i) / n - static_cast<double>(j) / m));
  }
  return p_of_distance(distance, n * m / (n + m));
}

// Returns the probability that a gamma variable with parameter a exceeds x. Uses a power series if
// x < a + 1, else a continued fraction (Abramowitz and Stegun 6.5.29 and 6.5.31).
inline double gamma_tail(double a, double x) {
  const double front = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (double k = a + 1; term > 1e-16 * sum; ++k) sum += term *= x / k;
    return 1 - front * sum;
  }
  double fraction = 0;
  for (int k = 500; k > 0; --k) fraction = k * (k - a) / (x + 2 * k + 1 - a - fraction);
  return front / (x + 1 - a - fraction);
}

// Returns the p-value for counts, by Pearson's chi-square; `expected` has the same sum.
inline double p_counts(const std::vector<std::int64_t>& counts,
                       const std::vector<double>& expected) {
  double square = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double off = static_cast<double>(counts[i]) - expected[i];
    square += off * off / expected[i];
  }
  return square > 0 ? gamma_tail(static_cast<double>(counts.size() - 1) / 2, square / 2) : 1;
}

// Returns P(X <= x) for X from Beta(a, a), by the continued fraction of the incomplete beta
// function (Abramowitz and Stegun 26.5.8), evaluated from its end.
inline double beta_cdf(double a, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > 0.5) return 1 - beta_cdf(a, 1 - x);
  double fraction = 1;
  for (int k = 150; k > 0; --k) {
    const double odd = -(a + k - 1) * (2 * a + k - 1) / ((a + 2 * k - 2) * (a + 2 * k - 1));
    const double even = k * (a - k) / ((a + 2 * k - 1) * (a + 2 * k));
    fraction = 1 + odd * x / (1 + even * x / fraction);
  }
  // `fraction` is now 1 + d1 x / (1 + d2 x / ..). The result needs its inverse.
  return std::exp(a * std::log(x * (1 - x)) + std::lgamma(2 * a) - 2 * std::lgamma(a)) /
         (a * fraction);
}

}  // namespace dtn::test
