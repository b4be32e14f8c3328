#include "tasks/diffusion/spacing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "dtn/core/check.h"

namespace dtn::test {
namespace {

using Steps = std::vector<std::int64_t>;

// The nearest even or odd integer of a sum in float64, without the library's rounding.
std::int64_t half_to_even(double value) {
  const double below = std::floor(value), rest = value - below;
  const auto low = static_cast<std::int64_t>(below);
  if (rest != 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 == 0 ? low : low + 1;
}

TEST(Spacing, DdpmKeepsARunningSum) {
  EXPECT_EQ(spaced_steps(SamplerKind::kDdpm, 1000, 2), (Steps{0, 999}));
  EXPECT_EQ(spaced_steps(SamplerKind::kDdpm, 1000, 5), (Steps{0, 250, 500, 749, 999}));
  // 10 x 49.95 is 499.5, but the sum is 499.49999999999994.
  EXPECT_EQ(spaced_steps(SamplerKind::kDdpm, 1000, 21),
            (Steps{0,   50,  100, 150, 200, 250, 300, 350, 400, 450, 499,
                   549, 599, 649, 699, 749, 799, 849, 899, 949, 999}));
  EXPECT_EQ(spaced_steps(SamplerKind::kDdpm, 1000, 23),
            (Steps{0,   45,  91,  136, 182, 227, 272, 318, 363, 409, 454, 499,
                   545, 590, 636, 681, 727, 772, 817, 863, 908, 954, 999}));
}

TEST(Spacing, DdpmKeepsEveryNumberOfSteps) {
  int elsewhere = 0;
  std::int64_t hash_of_all = 0;
  for (std::int64_t n = 2; n <= 1000; ++n) {
    const Steps steps = spaced_steps(SamplerKind::kDdpm, 1000, n);
    ASSERT_EQ(std::ssize(steps), n);
    EXPECT_EQ(steps.front(), 0);
    EXPECT_EQ(steps.back(), 999);
    EXPECT_TRUE(std::ranges::adjacent_find(steps, std::greater_equal()) == steps.end()) << n;
    bool differs = false;
    std::int64_t hash = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t step = steps[static_cast<std::size_t>(k)];
      const double product = static_cast<double>(999 * k) / static_cast<double>(n - 1);
      differs = differs || step != half_to_even(product);
      hash = (hash * 31 + step) % 1000003;
    }
    elsewhere += differs && n < 1000;
    hash_of_all = (hash_of_all * 131 + hash) % 1000003;
  }
  EXPECT_EQ(elsewhere, 283);
  EXPECT_EQ(hash_of_all, 137245);  // of the same lists, made by Python's round()
}

TEST(Spacing, DdimKeepsMultiplesOfAStride) {
  const Steps fifty = spaced_steps(SamplerKind::kDdim, 1000, 50);
  ASSERT_EQ(fifty.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(fifty[i], static_cast<std::int64_t>(20 * i));
  EXPECT_EQ(spaced_steps(SamplerKind::kDdim, 1000, 3), (Steps{0, 334, 668}));
  EXPECT_EQ(spaced_steps(SamplerKind::kDdim, 1000, 2), (Steps{0, 500}));
  EXPECT_EQ(spaced_steps(SamplerKind::kDdim, 1000, 1000).back(), 999);
}

TEST(Spacing, DdimTakesTheLeastStrideOrNone) {
  for (std::int64_t steps : {1000, 500, 16, 7}) {
    for (std::int64_t n = 2; n <= steps; ++n) {
      std::int64_t stride = 1;
      while (stride < steps && (steps + stride - 1) / stride != n) ++stride;
      if (stride == steps) {
        EXPECT_THROW(spaced_steps(SamplerKind::kDdim, steps, n), ConfigError) << n;
        continue;
      }
      const Steps kept = spaced_steps(SamplerKind::kDdim, steps, n);
      ASSERT_EQ(std::ssize(kept), n);
      EXPECT_EQ(kept[1], stride);
    }
  }
}

std::string error_of(SamplerKind kind, std::int64_t steps, std::int64_t kept) {
  try {
    spaced_steps(kind, steps, kept);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Spacing, ErrorsNameWhatWorks) {
  EXPECT_NE(error_of(SamplerKind::kDdim, 1000, 37).find("take 36 or 38 steps"), std::string::npos);
  EXPECT_NE(error_of(SamplerKind::kDdim, 1000, 600).find("take 500 steps"), std::string::npos);
  EXPECT_NE(error_of(SamplerKind::kDdim, 1000, 999).find("take 1000 steps"), std::string::npos);
  for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kDdpm}) {
    for (std::int64_t kept : {-1, 0, 1, 1001}) {
      EXPECT_NE(error_of(kind, 1000, kept).find("take 2 to 1000"), std::string::npos) << kept;
    }
  }
}

TEST(Spacing, FindsTheLargestNumberOfDdimSteps) {
  EXPECT_EQ(ddim_steps_up_to(1000, 50), 50);
  EXPECT_EQ(ddim_steps_up_to(1000, 37), 36);
  EXPECT_EQ(ddim_steps_up_to(1000, 999), 500);
  EXPECT_EQ(ddim_steps_up_to(1000, 5000), 1000);
  EXPECT_EQ(ddim_steps_up_to(20, 50), 20);
  EXPECT_EQ(ddim_steps_up_to(1000, 1), 2);
  EXPECT_EQ(ddim_steps_up_to(2, 1), 2);
}

}  // namespace
}  // namespace dtn::test
