// Chi-square test of counts against probabilities.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace dtn::test {

struct ChiSquare {
  double statistic;
  double bound;  // exceeded by chance once in a thousand times
};

// Pearson's test. The probabilities need not be normalized; cells with an expected count below five
// are pooled. The bound is from Wilson and Hilferty (1931), accurate to about 1 %.
inline ChiSquare chi_square(const std::vector<double>& counts,
                            const std::vector<double>& probabilities) {
  double all = 0, sum = 0;
  for (double c : counts) all += c;
  for (double p : probabilities) sum += p;
  double statistic = 0, cells = 0, pooled_count = 0, pooled = 0;
  const auto add = [&](double count, double expected) {
    if (expected == 0 && count == 0) return;
    statistic += expected > 0 ? (count - expected) * (count - expected) / expected
                              : std::numeric_limits<double>::infinity();
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = all * probabilities[i] / sum;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      pooled_count += counts[i];
      pooled += expected;
    }
  }
  add(pooled_count, pooled);
  const double k = cells - 1, z = 3.0902;
  return {statistic, k * std::pow(1 - 2 / (9 * k) + z * std::sqrt(2 / (9 * k)), 3)};
}

}  // namespace dtn::test
