#include "apps/sweep/student_t.h"

#include <cmath>
#include <limits>

namespace dtn {
namespace {

// Continued fraction of the incomplete beta function by Lentz's method (Abramowitz and Stegun,
// "Handbook of Mathematical Functions", 26.5.8). It converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  constexpr int kMax = 500;
  const auto nonzero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double value = d;
  for (int m = 1; m <= kMax; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / nonzero(1 + term * d);
      c = nonzero(1 + term / c);
      factor = c * d;
      value *= factor;
    }
    if (std::abs(factor - 1) < std::numeric_limits<double>::epsilon()) break;
  }
  return value;
}

// I_x(a, b), the regularised incomplete beta function.
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(1 - x, b, a);
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return front / a * beta_fraction(x, a, b);
}

}  // namespace

double two_sided_probability(double t, double freedom) {
  return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

double two_sided_quantile(double p, double freedom) {
  double low = 0, high = 1;
  while (two_sided_probability(high, freedom) > p) high *= 2;
  constexpr int kHalvings = 200;
  for (int i = 0; i < kHalvings && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    (two_sided_probability(middle, freedom) > p ? low : high) = middle;
  }
  return high;
}

std::optional<PairedComparison> compare_pairs(std::span<const double> differences) {
  const auto n = static_cast<double>(differences.size());
  if (differences.size() < 2) return std::nullopt;
  double sum = 0, squares = 0;
  for (const double d : differences) sum += d;
  const double mean = sum / n;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  PairedComparison result{.n = differences.size(), .mean = mean, .low = mean, .high = mean, .p = 1};
  if (error == 0) {
    result.p = mean == 0 ? 1 : 0;
    return result;
  }
  const double half = two_sided_quantile(0.05, n - 1) * error;
  result.low = mean - half;
  result.high = mean + half;
  result.p = two_sided_probability(mean / error, n - 1);
  return result;
}

}  // namespace dtn
