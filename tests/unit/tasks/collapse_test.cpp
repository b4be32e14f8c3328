// Warnings of a collapse of self-distillation.
#include "tasks/collapse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "texts.h"

namespace dtn {
namespace {

using test::expect_contains;

DinoConfig wide() {
  DinoConfig config;
  config.out_dim = 1024;
  config.center_momentum = 0.99;
  return config;
}
const double kMost = std::log(1024.0);

TEST(Collapse, OneOutputIsCollapseFromTheStart) {
  for (const bool settled : {false, true}) {
    EXPECT_FALSE(collapse_warning(wide(), 0.051 * kMost, settled));
    const auto found = collapse_warning(wide(), 0.049 * kMost, settled);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, "one_output");
    expect_contains(found->text, "their entropy is 0.3396, 4.9 % of ln K = 6.931");
    expect_contains(found->text, "Raise dino.teacher_temp (0.04)");
    expect_contains(found->text, "lower dino.center_momentum (0.99)");
  }
}

// The features of an untrained model are nearly equal, and the center takes away what they share.
TEST(Collapse, EqualOutputsAreCollapseOnlyAfterTheStart) {
  EXPECT_FALSE(collapse_warning(wide(), kMost, false));
  EXPECT_FALSE(collapse_warning(wide(), 0.989 * kMost, true));
  const auto found = collapse_warning(wide(), 0.991 * kMost, true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "equal_outputs");
  expect_contains(found->text, "Lower dino.teacher_temp (0.04) or optim.lr");
}

TEST(Collapse, StartEndsWithTheLongestOfItsParts) {
  const RunLength run{1000, 10};
  ExperimentConfig config;
  config.dino.freeze_last_layer_epochs = 0;
  EXPECT_EQ(settled_from(config, run), 10) << "the first epoch";
  config.schedule.warmup_epochs = 2.55;
  EXPECT_EQ(settled_from(config, run), 26);
  config.dino.freeze_last_layer_epochs = 3;
  EXPECT_EQ(settled_from(config, run), 30);
  config.schedule.warmup_steps = 31;
  EXPECT_EQ(settled_from(config, run), 31);
}

// A mean over the end of the warm-up would contain steps of the start.
TEST(Collapse, AllStepsOfALogLineMustBeAfterTheStart) {
  const RunLength run{1000, 10};
  ExperimentConfig config;
  config.dino.freeze_last_layer_epochs = 0;
  config.schedule.warmup_epochs = 2.5;
  const auto first_settled = [&](const Period& log_every) {
    config.train.log_every = log_every;
    std::int64_t step = 1;
    while (step <= 1000 && !is_settled(config, run, step)) ++step;
    return step;
  };
  EXPECT_EQ(first_settled({1, false}), 26);
  EXPECT_EQ(first_settled({20, false}), 41) << "the line of step 40 has the steps 21 to 40";
  EXPECT_EQ(first_settled({25, false}), 26);
  EXPECT_EQ(first_settled({1, true}), 31);
  EXPECT_EQ(first_settled({0, false}), 1001) << "the only line is that of the last step";
}

}  // namespace
}  // namespace dtn
