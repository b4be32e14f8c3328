// Student's t distribution and paired t-tests.
#pragma once

#include <optional>
#include <span>

namespace dtn {

// Returns the probability of |X| > |t| for a variable X with `freedom` degrees of freedom, >= 1.
double two_sided_probability(double t, double freedom);

// Inverse of two_sided_probability() in t, for p in (0, 1).
double two_sided_quantile(double p, double freedom);

// Result of a paired t-test: the mean of the differences, its 95 % interval, and the probability of
// a mean at least so far from zero if the true mean is zero.
struct PairedComparison {
  std::size_t n = 0;
  double mean = 0, low = 0, high = 0, p = 1;
};

// Tests the differences of pairs. Returns nothing for fewer than two pairs. If all differences are
// equal, the interval has zero width, and p is 0 (1 if they are zero).
std::optional<PairedComparison> compare_pairs(std::span<const double> differences);

}  // namespace dtn
