// The end of a run whose evaluations no longer get better.
#include "train/early_stop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"
#include "texts.h"

namespace dtn {
namespace {

using test::expect_error;

const TaskSchema& classify() { return task_registry().at("classify").schema; }

Metrics metrics(double top1, double loss) {
  return {.values = {{"top1", top1}, {"top5", 99}, {"loss", loss}}, .primary = "top1"};
}

TEST(EarlyStopping, CountsEvaluationsWithoutBetterFigure) {
  ExperimentConfig config;
  config.train.early_stop.patience = 2;
  RunProgress progress;
  EarlyStop stop(config, classify(), true, progress);
  for (const double top1 : {50.0, 40.0, 60.0, 60.0}) {
    stop.take(metrics(top1, 1));
    EXPECT_FALSE(stop.is_over()) << top1;
  }
  stop.take(metrics(NAN, 1));
  EXPECT_TRUE(stop.is_over());
  EXPECT_EQ(progress.stop_best, 60);
  test::expect_contains(stop.reason(), "no better top-1 in the last 2 evaluations");
  test::expect_contains(stop.reason(), "the best was 60.00 %");
  // A run that is resumed with more patience goes on.
  config.train.early_stop.patience = 3;
  EXPECT_FALSE(EarlyStop(config, classify(), true, progress).is_over());
}

TEST(EarlyStopping, KnowsWhichFiguresAreBetterIfSmaller) {
  ExperimentConfig config;
  config.train.early_stop = {1, "loss"};
  RunProgress progress;
  EarlyStop stop(config, classify(), true, progress);
  stop.take(metrics(50, 2));
  stop.take(metrics(40, 1));
  EXPECT_FALSE(stop.is_over());
  stop.take(metrics(90, 1.5));
  EXPECT_TRUE(stop.is_over());
}

TEST(EarlyStopping, IsOffByDefault) {
  RunProgress progress;
  EarlyStop stop(ExperimentConfig{}, classify(), false, progress);
  for (int i = 0; i < 9; ++i) stop.take(metrics(1, 1));
  EXPECT_FALSE(stop.is_over());
}

TEST(EarlyStopping, NeedsEvaluations) {
  ExperimentConfig config;
  config.train.early_stop.patience = 2;
  RunProgress progress;
  expect_error<ConfigError>([&] { EarlyStop(config, classify(), false, progress); },
                            {"no validation split", "data.val"});
}

TEST(EarlyStopping, WatchesFigureOfTask) {
  const auto parse = [](const std::vector<std::string>& set) {
    return parse_experiment("model: {preset: vit_t}\ndata: {dataset: synthetic}\n", "test", set,
                            standard_registries().schemas());
  };
  expect_error<ConfigError>(
      [&] {
        parse({"train.early_stop.patience=2", "train.early_stop.metric=map"});
      },
      {"train.early_stop.metric is map", "classify", "top1", "loss"});
  expect_error<ConfigError>([&] { parse({"train.early_stop.metric=loss"}); },
                            {"means nothing without train.early_stop.patience"});
  EXPECT_EQ(parse({"train.early_stop.patience=2", "train.early_stop.metric=loss"})
                .train.early_stop.metric,
            "loss");
}

}  // namespace
}  // namespace dtn
