// The keys of each schedule: their meaning, errors, and the keys dropped with another schedule.
#include <cmath>

#include "dtn/optim/schedule.h"
#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

ExperimentConfig parse(const std::string& text, const std::vector<std::string>& set = {},
                       const ScheduleRegistry& schedules = schedule_registry()) {
  ConfigSchemas schemas = fake_schemas();
  schemas.schedules = schedules.schemas();
  return parse_experiment(text, "t.yaml", set, schemas);
}

std::string parse_error(const std::string& text, const std::vector<std::string>& set = {}) {
  return error_of([&] { parse(text, set); });
}

ScheduleConfig schedule(const std::string& keys, const std::vector<std::string>& set = {}) {
  return parse("model: {preset: vit_t}\nschedule: {" + keys + "}", set).schedule;
}

TEST(ScheduleKeys, RoundTrip) {
  for (const char* keys : {
           "name: linear, warmup_prefix: true, warmup_epochs: 5",
           "name: poly, power: 0.9, cooldown_epochs: 10",
           "name: step, milestones: [30, 60.5], gamma: 0.2",
           "name: step, decay_epochs: 30, steps: 7",
           "name: wsd, decay_epochs: 2.5, per: step",
           "name: constant",
           "name: dino, warmup_epochs: 10, warmup_lr: 0, min_lr: 1e-6",
       }) {
    SCOPED_TRACE(keys);
    const ExperimentConfig c = parse(cat("model: {preset: vit_t}\nschedule: {", keys, "}"));
    const std::string text = to_yaml(c);
    EXPECT_TRUE(parse(text) == c) << text;
    EXPECT_EQ(to_yaml(parse(text)), text);
  }
  const ScheduleConfig step = schedule("name: step, milestones: [30, 60.5], gamma: 0.2");
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(step.milestones, (std::vector<double>{30, 60.5}));
  EXPECT_EQ(step.gamma, 0.2);
  EXPECT_EQ(schedule("name: step, milestones: 30").milestones, std::vector<double>{30});
  const ScheduleConfig poly = schedule("name: poly, power: 0.9, cooldown_epochs: 10");
  EXPECT_EQ(poly.name, "poly");
  EXPECT_EQ(poly.power, 0.9);
  EXPECT_EQ(poly.cooldown_epochs, 10);
  const ScheduleConfig wsd = schedule("name: wsd, decay_epochs: 2.5, warmup_prefix: true");
  EXPECT_EQ(wsd.name, "wsd");
  EXPECT_EQ(wsd.decay_epochs, 2.5);
  EXPECT_TRUE(wsd.warmup_prefix);
  EXPECT_TRUE(schedule("name: cosine, milestones: null, gamma: ~, cooldown_epochs: 0, "
                       "warmup_prefix: false") == ScheduleConfig(schedule("name: cosine")));
}

TEST(ScheduleKeys, SchedulesHaveTheirOwnDefaults) {
  const ScheduleConfig dino = schedule("name: dino");
  EXPECT_EQ(dino.warmup_lr, 0);
  EXPECT_EQ(dino.min_lr, 1e-6);
  EXPECT_EQ(schedule("name: dino, min_lr: 1e-4").min_lr, 1e-4);
  EXPECT_EQ(schedule("name: cosine", {"schedule.name=dino"}).warmup_lr, 0);
  EXPECT_EQ(schedule("name: cosine").min_lr, ScheduleConfig().min_lr);
}

TEST(ScheduleKeys, RejectInvalidValues) {
  struct Case {
    const char* keys;
    int column;
    const char* what;
  };
  for (const Case& c : {
           Case{"name: cosin", 18, "cosine, constant, linear, step, poly, wsd"},
           {"milestone: [1]", 12, "did you mean 'schedule.milestones'?"},
           {"milestones: [30]", 24,
            "is not read by the schedule 'cosine'; it is read by: step; remove it"},
           {"name: linear, power: 1", 33,
            "schedule.power is not read by the schedule 'linear'; it is read by: poly"},
           {"name: wsd, decay_epochs: 1, gamma: 0.1", 47,
            "schedule.gamma is not read by the schedule 'wsd'"},
           {"name: poly, decay_epochs: 1", 38, "it is read by: step, wsd; remove it"},
           {"name: constant, cooldown_epochs: 1", 45, "schedule.cooldown_epochs is not read"},
           {"name: constant, min_lr: 1e-3", 36, "schedule.min_lr is not read"},
           {"name: rsqrt, warmup_steps: 5, warmup_epochs: 2", 57,
            "it is read by: cosine, constant, linear, step, poly, wsd, dino; remove it"},
           {"name: rsqrt", 18, "needs schedule.warmup_steps"},
           {"name: dino, per: step", 29, "schedule.per is not read by the schedule 'dino'"},
           {"name: dino, min_lr: 1", 32, "schedule.min_lr 1 is above the rate 0.0005"},
           {"name: constant, warmup_prefix: true", 43, "schedule.warmup_prefix is not read"},
           {"name: step", 18, "needs schedule.milestones"},
           {"name: wsd", 18, "needs schedule.decay_epochs"},
           {"name: step, milestones: [1, 2], decay_epochs: 1", 58, "are both set"},
           {"name: step, milestones: [30, 30]", 36, "must ascend, but 30 comes after 30"},
           {"name: step, milestones: [60, 30]", 36, "must ascend, but 30 comes after 60"},
           {"name: step, milestones: []", 36, "an empty list"},
           {"name: step, milestones: [0, 30]", 36, "above 0"},
           {"name: step, milestones: [a]", 37, "finite number, not 'a'"},
           {"name: step, decay_epochs: 0", 38, "above 0"},
           {"name: step, decay_epochs: 1, gamma: 1.5", 48, "in (0, 1]"},
           {"name: poly, power: 0", 31, "in (0, 100]"},
           {"cooldown_epochs: -1", 29, "in [0, "},
           {"warmup_prefix: 1", 27, "must be true or false"},
           {"name: linear, min_lr: 1", 34, "schedule.min_lr 1 is above the rate 0.0005"},
           {"epochs: 9, cooldown_epochs: 9", 40, "schedule.epochs 9 has no room for 0 epochs of"},
           {"epochs: 9, warmup_epochs: 5, cooldown_epochs: 4", 58, "and some between them"},
           {"epochs: 9, warmup_epochs: 9, warmup_prefix: true", 38, "9 epochs of warmup"},
           {"name: wsd, epochs: 9, decay_epochs: 8, warmup_epochs: 2", 48, "8 of the way down"},
       }) {
    SCOPED_TRACE(c.keys);
    const std::string error = parse_error(cat("model: {preset: vit_t}\nschedule: {", c.keys, "}"));
    EXPECT_TRUE(error.starts_with(cat("t.yaml:2:", c.column, ": "))) << error;
    expect_contains(error, c.what);
  }
  EXPECT_NO_THROW(schedule("name: wsd, epochs: 9, decay_epochs: 7, warmup_epochs: 2"));
  EXPECT_NO_THROW(schedule("epochs: 3, warmup_epochs: 5")) << "as ever";
  EXPECT_NO_THROW(schedule("min_lr: 1")) << "as ever";
}

TEST(ScheduleKeys, NewScheduleDropsOldKeys) {
  const std::string step = "name: step, milestones: [3, 6], gamma: 0.5, cooldown_epochs: 2";
  const ScheduleConfig linear = schedule(step, {"schedule.name=linear"});
  EXPECT_TRUE(linear.milestones.empty());
  EXPECT_EQ(linear.gamma, std::nullopt);
  EXPECT_EQ(linear.cooldown_epochs, 2);
  EXPECT_EQ(schedule(step, {"schedule.name=constant"}).cooldown_epochs, 0);
  EXPECT_EQ(schedule(step, {"schedule.name=step"}).gamma, 0.5);
  expect_contains(parse_error("model: {preset: vit_t}\nschedule: {name: wsd, decay_epochs: 4}",
                              {"schedule.name=step"}),
                  "--set schedule.name=step: the schedule 'step' needs schedule.milestones");
  const ScheduleConfig even = schedule(step, {"schedule.decay_epochs=4"});
  EXPECT_TRUE(even.milestones.empty());
  EXPECT_EQ(even.decay_epochs, 4);
  EXPECT_EQ(schedule("name: step, decay_epochs: 4", {"schedule.milestones=[1, 5]"}).decay_epochs,
            std::nullopt);
  expect_contains(
      parse_error("model: {preset: vit_t}", {"schedule.name=linear", "schedule.gamma=0.1"}),
      "--set schedule.gamma=0.1: schedule.gamma is not read by the schedule 'linear'");
}

// A schedule of a user's program: checked, resolved and used like those of the library.
TEST(ScheduleRegistry, TakesRowsOfAProgram) {
  ScheduleRegistry mine = schedule_registry();
  mine.add({{"halves", "halves the rate at equal intervals", {"decay_epochs"}},
            [](const ScheduleConfig& s, double peak) -> RateCurve {
              return [peak, interval = s.decay_epochs.value()](const ScheduleTime& time) {
                return peak * std::exp2(-std::floor(time.epoch / interval));
              };
            }});
  const ExperimentConfig c = parse(
      "model: {preset: vit_t}\nschedule: {name: halves, decay_epochs: 2, epochs: 10}", {}, mine);
  const LearningRate rate(c.optim, c.schedule, 1, 10, mine);
  EXPECT_EQ(rate.at(39), c.optim.lr / 2);
  EXPECT_EQ(rate.at(40), c.optim.lr / 4);
  EXPECT_THROW(LearningRate(c.optim, c.schedule, 1, 10), ConfigError);
}

TEST(ScheduleRegistry, EachIsDocumented) {
  for (const ScheduleSchema& schedule : schedule_registry().schemas()) {
    EXPECT_FALSE(schedule.doc.empty()) << schedule.name;
  }
}

}  // namespace
}  // namespace dtn::testing
