// Trees of ListOps match those of the Long-Range Arena in all known figures.
#include <array>

#include "data_fixtures.h"
#include "listops_trees.h"

namespace dtn::listops {
namespace {

// A mean over trees and its standard error.
struct Mean {
  double value = 0, error = 0;
};

Mean mean_of(const std::vector<double>& values) {
  Mean mean;
  const auto n = static_cast<double>(values.size());
  for (double v : values) mean.value += v / n;
  for (double v : values) mean.error += (v - mean.value) * (v - mean.value) / n;
  mean.error = std::sqrt(mean.error / n);
  return mean;
}

// Compares with a figure of `wanted_trees` trees from other random numbers, known up to `rounding`.
// Both figures have a sampling error.
void expect_figure(const char* what, Mean found, double wanted, double wanted_trees, double trees,
                   double rounding) {
  const double error = found.error * std::sqrt(1 + trees / wanted_trees);
  EXPECT_NEAR(found.value, wanted, 4.5 * error + rounding) << what << ", one error is " << error;
}

std::vector<double> lengths_of(const Trees& trees) {
  std::vector<double> lengths;
  for (const Tokens& t : trees.tokens) lengths.push_back(static_cast<double>(t.size()));
  return lengths;
}

// A quantile, and its error from the density of the values there.
Mean quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  const double at = values[static_cast<std::size_t>(share * n)];
  const double around = static_cast<double>(
      std::ranges::count_if(values, [&](double v) { return std::abs(v - at) < 50; }));
  return {at, std::sqrt(share * (1 - share) / n) / (around / n / 100)};
}

void expect_labels(const Trees& trees, const std::array<double, 10>& percent) {
  const auto n = static_cast<double>(trees.values.size());
  for (int digit = 0; digit < 10; ++digit) {
    const double share = static_cast<double>(std::ranges::count(trees.values, digit)) / n;
    const Mean found{100 * share, 100 * std::sqrt(share * (1 - share) / n)};
    expect_figure(cat("label ", digit).c_str(), found, percent[static_cast<std::size_t>(digit)],
                  4000, n, 0.05);
  }
}

TEST(ListopsTrees, MatchStatisticsOfLongRangeArena) {
  constexpr double n = 10'000;
  const Trees trees = draw(drawing(static_cast<std::int64_t>(n)));
  const std::vector<double> lengths = lengths_of(trees);
  EXPECT_EQ(trees.report.duplicates, 0);
  EXPECT_GE(*std::ranges::min_element(lengths), 501);
  EXPECT_LE(*std::ranges::max_element(lengths), 1999);
  const Mean mean = mean_of(lengths);
  expect_figure("mean length", mean, 1035, n, n, 0.5);
  std::vector<double> squares;
  for (double length : lengths) squares.push_back((length - mean.value) * (length - mean.value));
  const Mean variance = mean_of(squares);
  const double sd = std::sqrt(variance.value);
  expect_figure("deviation", {sd, variance.error / (2 * sd)}, 393, n, n, 0.5);
  expect_figure("lower quartile", quantile(lengths, 0.25), 700, n, n, 2.5);
  expect_figure("median", quantile(lengths, 0.5), 955, n, n, 2.5);
  expect_figure("upper quartile", quantile(lengths, 0.75), 1305, n, n, 2.5);
  expect_labels(trees, {17.0, 9.6, 7.2, 7.8, 8.8, 8.9, 7.9, 7.4, 8.7, 16.9});

  std::array<double, kVocabulary> roots{};
  for (const Tokens& tokens : trees.tokens) ++roots[tokens.front()];
  for (Token op = kMax; op <= kSum; ++op) {
    EXPECT_NEAR(roots[op] / n, 0.25, 4.5 * std::sqrt(0.25 * 0.75 / n)) << kWords[op];
  }
  // The share of a token varies from tree to tree, so its error is computed over trees.
  for (Token token = kDigitZero; token <= kClose; ++token) {
    double count = 0, all = 0, square = 0;
    std::vector<double> counts;
    for (const Tokens& tokens : trees.tokens) {
      counts.push_back(static_cast<double>(std::ranges::count(tokens, token)));
      count += counts.back();
      all += static_cast<double>(tokens.size());
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double off = counts[i] - count / all * lengths[i];
      square += off * off;
    }
    const double wanted = is_digit(token) ? 7.15 : is_operator(token) ? 3.55 : 14.2;
    expect_figure(std::string(kWords[token]).c_str(),
                  {100 * count / all, 100 * std::sqrt(square) / all}, wanted, n, n, 0.05);
  }

  const auto tries = static_cast<double>(trees.report.tries);
  const double kept = n / tries;
  expect_figure("kept of all tries", {kept, std::sqrt(kept * (1 - kept) / tries)}, 0.082, n, n,
                0.0005);
  TreeDrawer longer({1999, 1'000'000, 10, 10}, 1);
  double too_long = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) too_long += !longer.draw(i).empty();
  expect_figure("too long", {too_long / 1e5, std::sqrt(too_long) / 1e5}, 0.011, 1e5, 1e5, 0.0005);
}

TEST(ListopsTrees, ShortTreesMatchStatisticsOfLongRangeArena) {
  constexpr double n = 4'000;
  const Trees trees = draw(drawing(static_cast<std::int64_t>(n), {100, 200, 10, 10}));
  expect_labels(trees, {16.0, 9.1, 7.8, 8.6, 9.0, 9.2, 8.0, 7.7, 9.2, 15.3});
  const auto tries = static_cast<double>(trees.report.tries);
  const double kept = tries / n;
  expect_figure("tries for a tree", {kept, kept / std::sqrt(n)}, 84, n, n, 0.5);
}

}  // namespace
}  // namespace dtn::listops
