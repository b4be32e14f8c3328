#include "dtn/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr double kRelative = 1e-14;

OptimConfig optim(double lr) {
  OptimConfig o;
  o.lr = lr;
  return o;
}

double cosine(double min, double peak, double progress) {
  return min + (peak - min) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

ScheduleConfig epochs(std::int64_t n) {
  ScheduleConfig s;
  s.epochs = n;
  s.warmup_lr = 1e-6;
  s.min_lr = 1e-5;
  return s;
}

TEST(LearningRate, ChangesPerEpochByDefault) {
  ScheduleConfig s = epochs(300);
  s.warmup_epochs = 5;
  LearningRate rate(optim(1e-3), s, 1024, 100);
  EXPECT_EQ(rate.total_steps(), 30000);
  EXPECT_DOUBLE_EQ(rate.at(0), 1e-6);
  EXPECT_DOUBLE_EQ(rate.at(99), 1e-6);
  EXPECT_NEAR(rate.at(100), 1e-6 + (1e-3 - 1e-6) / 5, kRelative);
  EXPECT_NEAR(rate.at(499), 1e-6 + 4 * (1e-3 - 1e-6) / 5, kRelative);
  // After the warmup the cosine has the values that it has without a warmup.
  EXPECT_NEAR(rate.at(500), cosine(1e-5, 1e-3, 5.0 / 300), kRelative);
  EXPECT_DOUBLE_EQ(rate.at(599), rate.at(500));
  EXPECT_NEAR(rate.at(15000), (1e-3 + 1e-5) / 2, kRelative);
  EXPECT_NEAR(rate.at(29999), cosine(1e-5, 1e-3, 299.0 / 300), kRelative);
}

TEST(LearningRate, ChangesPerStepIfStepsAreGiven) {
  ScheduleConfig s;
  s.steps = 1000;
  s.warmup_epochs = 0.5;
  LearningRate rate(optim(0.1), s, 1, 100);
  EXPECT_EQ(rate.total_steps(), 1000);
  EXPECT_DOUBLE_EQ(rate.at(0), s.warmup_lr);
  EXPECT_NEAR(rate.at(25), s.warmup_lr + (0.1 - s.warmup_lr) / 2, kRelative);
  EXPECT_NEAR(rate.at(50), cosine(s.min_lr, 0.1, 0.05), kRelative);
  EXPECT_NEAR(rate.at(51), cosine(s.min_lr, 0.1, 0.051), kRelative);
  EXPECT_NEAR(rate.at(1000), s.min_lr, kRelative);
  EXPECT_NEAR(rate.at(5000), s.min_lr, kRelative) << "does not rise again";
}

TEST(LearningRate, PerKeySelectsStepOrEpoch) {
  ScheduleConfig s = epochs(10);
  s.per = SchedulePer::kStep;
  EXPECT_NEAR(LearningRate(optim(1), s, 1, 7).at(33), cosine(1e-5, 1, 33.0 / 70), kRelative);
  ScheduleConfig t;
  t.steps = 70;
  t.per = SchedulePer::kEpoch;
  EXPECT_NEAR(LearningRate(optim(1), t, 1, 7).at(33), cosine(1e-5, 1, 4.0 / 10), kRelative);
}

TEST(LearningRate, CanStayConstant) {
  ScheduleConfig s = epochs(10);
  s.name = "constant";
  s.warmup_epochs = 2;
  LearningRate rate(optim(0.5), s, 1, 10);
  EXPECT_NEAR(rate.at(10), (0.5 + 1e-6) / 2, kRelative);
  for (std::int64_t step : {20, 50, 99}) EXPECT_EQ(rate.at(step), 0.5);
}

TEST(LearningRate, ScalesPeakWithBatchSize) {
  OptimConfig o = optim(5e-4);
  o.lr_scale_batch = 512;
  LearningRate rate(o, epochs(10), 1024, 10);
  EXPECT_DOUBLE_EQ(rate.peak(), 1e-3);
  EXPECT_DOUBLE_EQ(rate.at(0), 1e-3);
  EXPECT_NEAR(rate.at(90), cosine(1e-5, 1e-3, 0.9), kRelative) << "min_lr is not scaled";
}

TEST(LearningRate, RequiresEpochsOrSteps) {
  ScheduleConfig none, both;
  both.epochs = both.steps = 3;
  EXPECT_THROW(LearningRate(optim(1), none, 1, 10), Error);
  EXPECT_THROW(LearningRate(optim(1), both, 1, 10), Error);
}

}  // namespace
}  // namespace dtn
