// Tables of the diffusion process, against figures computed with 50 digits.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "dtn/core/check.h"
#include "tasks/diffusion/process.h"

namespace dtn::test {
namespace {

// Equal to a relative error of 1e-11: some thousand roundings of float64.
void expect_close(double value, double expected) {
  EXPECT_NEAR(value, expected, 1e-11 * std::abs(expected));
}

TEST(DiffusionProcess, HasTheTablesOfTheLinearSchedule) {
  const DiffusionProcess process{DiffusionConfig{}};
  ASSERT_EQ(process.size(), 1000);
  expect_close(process.at(0).beta, 1e-4);
  expect_close(process.at(999).beta, 0.02);
  expect_close(process.at(0).alpha_bar, 0.9999);
  expect_close(process.at(499).alpha_bar, 0.078587242881778235);
  expect_close(process.at(999).alpha_bar, 4.0358297653756835e-05);
  EXPECT_EQ(process.at(0).alpha_bar_before, 1);
  EXPECT_EQ(process.at(999).alpha_bar_before, process.at(998).alpha_bar);
  for (std::int64_t t = 0; t < 1000; ++t) EXPECT_EQ(process.at(t).time, t);
}

TEST(DiffusionProcess, HasThePosterior) {
  const DiffusionProcess process{DiffusionConfig{}};
  EXPECT_EQ(process.at(0).posterior_variance, 0);
  expect_close(process.at(0).mean_of_start, 1);
  EXPECT_EQ(process.at(0).mean_of_noisy, 0);
  // The variance of the first step is 0, so its logarithm is that of the second.
  expect_close(process.at(0).posterior_log_variance, -9.81672513529559);
  expect_close(process.at(1).posterior_log_variance, -9.81672513529559);
  expect_close(process.at(2).posterior_log_variance, -9.36712149736633);
  expect_close(process.at(999).posterior_log_variance, -3.91202382910045);
  expect_close(process.at(500).mean_of_start, 0.00305805707562962);
  expect_close(process.at(500).mean_of_noisy, 0.994104350756726);
}

TEST(DiffusionProcess, ScalesTheVarianceOfOtherNumbersOfSteps) {
  DiffusionConfig config;
  config.steps = 500;
  const DiffusionProcess process(config);
  expect_close(process.at(0).alpha_bar, 0.9998);
  expect_close(process.at(499).alpha_bar, 3.76609325909242e-05);
}

TEST(DiffusionProcess, KeepsAlphaBarOfEverySteps) {
  std::vector<std::int64_t> kept(50);
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = static_cast<std::int64_t>(20 * i);
  const DiffusionProcess all{DiffusionConfig{}};
  const DiffusionProcess process = all.respaced(kept);
  ASSERT_EQ(process.size(), 50);
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(process.at(i).time, 20 * i);
    EXPECT_EQ(process.at(i).alpha_bar, all.at(20 * i).alpha_bar);
  }
  expect_close(process.at(0).beta, 1e-4);
  expect_close(process.at(1).beta, 0.0061651879465951824);
  expect_close(process.at(49).beta, 0.32461444752912533);
  expect_close(process.at(0).posterior_log_variance, -9.22633192839277);
  expect_close(process.at(1).posterior_log_variance, -9.22633192839277);
  expect_close(process.at(25).posterior_log_variance, -1.73373756738064);
  expect_close(process.at(49).posterior_log_variance, -1.12514549379456);
  expect_close(process.at(1).mean_of_start, 0.984086421639773);
  expect_close(process.at(49).mean_of_noisy, 0.821795121603903);
}

TEST(DiffusionProcess, OfAllStepsIsUnchanged) {
  const DiffusionProcess all{DiffusionConfig{}};
  std::vector<std::int64_t> kept(1000);
  std::iota(kept.begin(), kept.end(), std::int64_t{0});
  const DiffusionProcess same = all.respaced(kept);
  for (std::int64_t t = 0; t < 1000; ++t) {
    // 1 - abar_t / abar_(t-1) loses digits where beta is small.
    EXPECT_NEAR(same.at(t).beta, all.at(t).beta, 1e-15);
    EXPECT_NEAR(same.at(t).posterior_log_variance, all.at(t).posterior_log_variance, 1e-10);
  }
}

TEST(DiffusionProcess, RefusesStepsOutOfOrder) {
  const DiffusionProcess all{DiffusionConfig{}};
  EXPECT_THROW(all.respaced(std::vector<std::int64_t>{3, 3}), Error);
  EXPECT_THROW(all.respaced(std::vector<std::int64_t>{999, 1000}), Error);
}

}  // namespace
}  // namespace dtn::test
