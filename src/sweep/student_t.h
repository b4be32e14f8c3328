// Student's t distribution and what a paired comparison says by it.
#pragma once

#include <optional>
#include <span>

namespace dtn {

// The probability that a variable with `freedom` degrees of freedom, at least 1, is farther from
// zero than t on either side.
double two_sided_probability(double t, double freedom);

// The t beyond which, on either side, lies the probability p of (0, 1).
double two_sided_quantile(double p, double freedom);

// The mean of differences, its 95 % interval, and the probability of a mean so far from zero if
// the true one were zero: a paired t-test.
struct PairedComparison {
  std::size_t n = 0;
  double mean = 0, low = 0, high = 0, p = 1;
};

// Of paired values: nothing for fewer than two pairs. Pairs that all differ by the same have an
// interval without width, and p 0 (1 where they do not differ).
std::optional<PairedComparison> compare_pairs(std::span<const double> differences);

}  // namespace dtn
