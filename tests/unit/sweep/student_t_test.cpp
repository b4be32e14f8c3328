#include "apps/sweep/student_t.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dtn {
namespace {

// Two-sided 5 % points from the usual printed table.
TEST(StudentT, QuantilesMatchTables) {
  EXPECT_NEAR(two_sided_quantile(0.05, 1), 12.706, 5e-4);
  EXPECT_NEAR(two_sided_quantile(0.05, 2), 4.303, 5e-4);
  EXPECT_NEAR(two_sided_quantile(0.05, 4), 2.776, 5e-4);
  EXPECT_NEAR(two_sided_quantile(0.05, 30), 2.042, 5e-4);
  EXPECT_NEAR(two_sided_quantile(0.01, 4), 4.604, 5e-4);
  EXPECT_NEAR(two_sided_quantile(0.05, 1e6), 1.960, 5e-4);
}

// One degree of freedom gives Cauchy's distribution; two give a closed form.
TEST(StudentT, ProbabilitiesMatchClosedForms) {
  EXPECT_DOUBLE_EQ(two_sided_probability(0, 3), 1);
  EXPECT_NEAR(two_sided_probability(1, 1), 0.5, 1e-14);
  for (const double t : {0.1, 1.0, 3.0, 50.0}) {
    EXPECT_NEAR(two_sided_probability(t, 2), 1 - t / std::sqrt(2 + t * t), 1e-13) << t;
    EXPECT_EQ(two_sided_probability(-t, 2), two_sided_probability(t, 2));
  }
}

// Student's sleep data (Biometrika 6, 1908): ten patients, two drugs.
TEST(StudentT, PairedTestMatchesStudentsExample) {
  const std::vector<double> gain = {1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4};
  const auto result = compare_pairs(gain);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->n, 10u);
  EXPECT_NEAR(result->mean, 1.58, 1e-12);
  EXPECT_NEAR(result->p, 0.002833, 1e-6);
  EXPECT_NEAR(result->low, 0.7001142, 1e-6);
  EXPECT_NEAR(result->high, 2.4598858, 1e-6);
}

TEST(StudentT, TooFewOrEqualPairs) {
  EXPECT_FALSE(compare_pairs(std::vector<double>{1.0}));
  const auto same = compare_pairs(std::vector<double>{0.5, 0.5, 0.5});
  EXPECT_EQ(same->low, 0.5);
  EXPECT_EQ(same->high, 0.5);
  EXPECT_EQ(same->p, 0);
  EXPECT_EQ(compare_pairs(std::vector<double>{0.0, 0.0})->p, 1);
}

}  // namespace
}  // namespace dtn
