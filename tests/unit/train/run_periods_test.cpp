#include "train/run_periods.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtn {
namespace {

constexpr std::int64_t kStepsPerEpoch = 4, kTotalSteps = 10;

// Returns the steps from 0 to the last one at which `due` is true.
std::vector<std::int64_t> due_steps(const TrainConfig& train,
                                    bool (RunPeriods::*due)(std::int64_t) const) {
  const RunPeriods periods(train, kStepsPerEpoch, kTotalSteps);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step <= kTotalSteps; ++step) {
    if ((periods.*due)(step)) steps.push_back(step);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(RunPeriods, LogFirstAndLastStep) {
  TrainConfig train;
  train.log_every = {4, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::log_due), (Steps{0, 1, 4, 8, 10}));
  train.log_every = {0, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::log_due), (Steps{1, 10}));
}

TEST(RunPeriods, CountEpochsOrSteps) {
  TrainConfig train;
  train.eval_every = {1, true};
  train.checkpoint_every = {3, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::evaluation_due), (Steps{0, 4, 8, 10}));
  EXPECT_EQ(due_steps(train, &RunPeriods::checkpoint_due), (Steps{0, 3, 6, 9, 10}));
  train.eval_every = train.checkpoint_every = {0, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::evaluation_due), Steps{kTotalSteps});
  EXPECT_EQ(due_steps(train, &RunPeriods::checkpoint_due), Steps{kTotalSteps});
}

TEST(RunPeriods, CheckpointsThatStayAreWrittenToo) {
  TrainConfig train;
  train.checkpoint_every = {3, false};
  EXPECT_EQ(RunPeriods(train, kStepsPerEpoch, kTotalSteps).steps_between_kept(), 0);
  train.keep_every = Period{2, true};
  EXPECT_EQ(RunPeriods(train, kStepsPerEpoch, kTotalSteps).steps_between_kept(), 8);
  EXPECT_EQ(due_steps(train, &RunPeriods::checkpoint_due), (Steps{0, 3, 6, 8, 9, 10}));
}

TEST(RunPeriods, LogLambdasOnlyIfConfigured) {
  TrainConfig train;
  EXPECT_EQ(due_steps(train, &RunPeriods::lambdas_due), Steps{});
  train.log_norms = Period{0, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::lambdas_due), (Steps{0, kTotalSteps}));
  train.log_norms = Period{5, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::lambdas_due), (Steps{0, 5, kTotalSteps}));
}

TEST(RunPeriods, NeedStateForHistogramsNotForLogLines) {
  TrainConfig train;
  train.log_every = {1, false};
  train.eval_every = train.checkpoint_every = {0, false};
  train.log_histograms = Period{3, false};
  EXPECT_EQ(due_steps(train, &RunPeriods::needs_state_of), (Steps{0, 3, 6, 9, 10}));
}

TEST(RunPeriods, DrawPicturesAtTheirPeriodAndAtTheEnd) {
  const auto drawn_at = [](std::optional<Period> period) {
    const RunPeriods periods(TrainConfig{}, kStepsPerEpoch, kTotalSteps, false, period);
    Steps steps;
    for (std::int64_t step = 1; step <= kTotalSteps; ++step) {
      if (periods.picture_due(step)) {
        steps.push_back(step);
        EXPECT_TRUE(periods.needs_state_of(step));
      }
    }
    return steps;
  };
  EXPECT_EQ(drawn_at(Period{3, false}), (Steps{3, 6, 9, 10}));
  EXPECT_EQ(drawn_at(Period{1, true}), (Steps{4, 8, 10}));
  EXPECT_EQ(drawn_at(Period{0, false}), Steps{});
  EXPECT_EQ(drawn_at(std::nullopt), Steps{});
}

}  // namespace
}  // namespace dtn
