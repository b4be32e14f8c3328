// The schedules other than cosine, against values computed by hand and against timm's rules.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "dtn/core/check.h"
#include "dtn/optim/schedule.h"

namespace dtn {
namespace {

constexpr double kRelative = 1e-12;
constexpr std::int64_t kPerEpoch = 10;

// 100 epochs of ten steps, from 1 to 0.1, with a warmup of five epochs from 0.
ScheduleConfig shape(const std::string& name) {
  ScheduleConfig s;
  s.name = name;
  s.epochs = 100;
  s.warmup_epochs = 5;
  s.warmup_lr = 0;
  s.min_lr = 0.1;
  return s;
}

LearningRate rate_of(const ScheduleConfig& schedule) {
  OptimConfig optim;
  optim.lr = 1;
  return {optim, schedule, 1, kPerEpoch};
}

struct At {
  double epoch, rate;
};

void expect_rates(const ScheduleConfig& schedule, std::initializer_list<At> all) {
  const LearningRate rate = rate_of(schedule);
  for (const At& at : all) {
    EXPECT_NEAR(rate.at(std::llround(at.epoch * kPerEpoch)), at.rate, kRelative) << at.epoch;
  }
}

TEST(Schedule, LinearFallsToMinLr) {
  ScheduleConfig s = shape("linear");
  expect_rates(s, {{0, 0},
                   {4, 0.8},
                   {4.9, 0.8},
                   {5, 0.955},
                   {50, 0.55},
                   {50.9, 0.55},
                   {99, 0.109},
                   {100, 0.1},
                   {500, 0.1}});
  s.per = SchedulePer::kStep;
  expect_rates(s, {{0.1, 0.02}, {4.9, 0.98}, {50.5, 0.5455}, {99.9, 0.1009}});
}

TEST(Schedule, PolyIsPowerOfRemainingTime) {
  ScheduleConfig s = shape("poly");
  expect_rates(s, {{2, 0.4}, {19, 0.91}, {75, 0.55}, {96, 0.28}, {100, 0.1}});  // 0.5, as in timm
  s.power = 2;
  expect_rates(s, {{5, 0.1 + 0.9 * 0.9025}, {50, 0.325}, {90, 0.109}, {100, 0.1}});
  s.power = 1;
  const ScheduleConfig linear = shape("linear");
  for (std::int64_t step = 0; step <= 1000; ++step) {
    ASSERT_NEAR(rate_of(s).at(step), rate_of(linear).at(step), kRelative) << step;
  }
}

TEST(Schedule, StepDropsAtMilestones) {
  ScheduleConfig s = shape("step");
  s.milestones = {30, 60, 90};
  s.gamma = 0.5;
  expect_rates(
      s,
      {{1, 0.2}, {5, 1}, {29.9, 1}, {30, 0.5}, {59.9, 0.5}, {60, 0.25}, {90, 0.125}, {99, 0.125}});
  s.gamma.reset();
  s.min_lr = 0.005;
  expect_rates(s, {{29, 1}, {30, 0.1}, {60, 0.01}, {89, 0.01}, {90, 0.005}});  // min_lr
  s.per = SchedulePer::kStep;
  s.milestones = {0.3, 30.7};
  s.warmup_epochs = 0;
  expect_rates(s, {{0.2, 1}, {0.3, 0.1}, {30.6, 0.1}, {30.7, 0.01}});
}

TEST(Schedule, StepDropsAtEqualIntervals) {
  ScheduleConfig s = shape("step");
  s.decay_epochs = 30;
  s.gamma = 0.5;
  expect_rates(s, {{5, 1}, {29, 1}, {30, 0.5}, {59, 0.5}, {60, 0.25}, {90, 0.125}});
  // 0.3 / 0.1 is less than 3 in binary.
  s.decay_epochs = 0.1;
  s.gamma = 0.9;
  s.warmup_epochs = 0;
  s.per = SchedulePer::kStep;
  for (int step = 0; step < 20; ++step) {
    EXPECT_NEAR(rate_of(s).at(step), std::pow(0.9, step), kRelative) << step;
  }
}

TEST(Schedule, WsdHoldsPeak) {
  ScheduleConfig s = shape("wsd");
  s.decay_epochs = 20;
  expect_rates(s, {{4, 0.8}, {5, 1}, {50, 1}, {80, 1}, {81, 0.955}, {90, 0.55}, {99, 0.145}});
  EXPECT_EQ(rate_of(s).at(700), 1.0);
  s.per = SchedulePer::kStep;
  expect_rates(s, {{80, 1}, {80.1, 0.9955}, {99.9, 0.1045}, {100, 0.1}, {120, 0.1}});
  s.decay_epochs = 95;  // no stable phase
  expect_rates(s, {{5, 1}, {52.5, 0.55}, {100, 0.1}});
}

TEST(Schedule, CooldownHoldsMinLrAfterShorterSchedule) {
  for (const char* name : {"cosine", "linear", "poly"}) {
    ScheduleConfig s = shape(name), shorter = shape(name);
    s.cooldown_epochs = 20;
    shorter.epochs = 80;
    for (std::int64_t step = 0; step < 800; ++step) {
      ASSERT_EQ(rate_of(s).at(step), rate_of(shorter).at(step)) << step;
    }
    for (std::int64_t step : {800, 801, 999}) EXPECT_EQ(rate_of(s).at(step), 0.1) << step;
  }
  ScheduleConfig wsd = shape("wsd"), step = shape("step");
  wsd.cooldown_epochs = step.cooldown_epochs = 20;
  wsd.decay_epochs = 40;
  expect_rates(wsd, {{40, 1}, {60, 0.55}, {79, 0.1225}, {80, 0.1}, {99, 0.1}});
  step.milestones = {50};
  step.gamma = 0.5;
  expect_rates(step, {{49, 1}, {50, 0.5}, {79, 0.5}, {80, 0.1}, {99, 0.1}});
}

TEST(Schedule, WarmupPrefixStartsScheduleAfterWarmup) {
  ScheduleConfig s = shape("linear");
  s.warmup_prefix = true;
  expect_rates(
      s, {{0, 0}, {4, 0.8}, {5, 1}, {52, 1 - 0.9 * 47 / 95}, {99, 0.1 + 0.9 / 95}, {100, 0.1}});
  s.cooldown_epochs = 45;  // 50 epochs are left
  expect_rates(s, {{5, 1}, {30, 0.55}, {54, 0.118}, {55, 0.1}, {99, 0.1}});
  ScheduleConfig step = shape("step");
  step.warmup_prefix = true;
  step.milestones = {30};
  step.gamma = 0.5;
  expect_rates(step, {{5, 1}, {34, 1}, {35, 0.5}, {99, 0.5}});
  step.milestones.clear();
  step.decay_epochs = 30;
  expect_rates(step, {{34, 1}, {35, 0.5}, {65, 0.25}});
  ScheduleConfig wsd = shape("wsd"), with = wsd;
  wsd.decay_epochs = with.decay_epochs = 20;
  with.warmup_prefix = true;  // its decay phase counts from the end
  for (std::int64_t at = 0; at <= 1000; ++at) {
    ASSERT_EQ(rate_of(with).at(at), rate_of(wsd).at(at)) << at;
  }
}

// timm's schedulers, as their code computes a rate for an epoch, with one cycle and k_decay 1.
// t_initial is the number of epochs of the schedule alone; the warmup (with `prefix`) and the
// cooldown are added to it.
struct Timm {
  double base = 1, lr_min = 0.1, warmup_lr = 0;
  int t_initial = 100, warmup_t = 5;
  bool prefix = false;

  template <class Rate>
  double at(int t, Rate rate) const {
    if (t < warmup_t) return warmup_lr + t * (base - warmup_lr) / warmup_t;
    return rate(prefix ? t - warmup_t : t);
  }
  double cosine(int t) const {
    return at(t, [&](int u) {
      return u < t_initial
                 ? lr_min + 0.5 * (base - lr_min) * (1 + std::cos(std::numbers::pi * u / t_initial))
                 : lr_min;
    });
  }
  double poly(int t, double power) const {
    return at(t, [&](int u) {
      const double left = 1 - static_cast<double>(u) / t_initial;
      return u < t_initial ? lr_min + (base - lr_min) * std::pow(left, power) : lr_min;
    });
  }
  double step(int t, int decay_t, double decay_rate) const {
    return at(t, [&](int u) { return base * std::pow(decay_rate, u / decay_t); });
  }
};

TEST(Schedule, MatchesTimm) {
  for (bool prefix : {false, true}) {
    for (int cooldown : {0, 10}) {
      Timm timm;
      timm.prefix = prefix;
      timm.t_initial = 100 - cooldown - (prefix ? 5 : 0);
      const auto ours = [&](const std::string& name) {
        ScheduleConfig s = shape(name);
        s.warmup_prefix = prefix;
        s.cooldown_epochs = cooldown;
        if (name == "step") s.decay_epochs = 20, s.gamma = 0.7, s.min_lr = 0;
        return rate_of(s);
      };
      const LearningRate cosine = ours("cosine"), poly = ours("poly"), step = ours("step");
      for (int t = 0; t < 100; ++t) {
        SCOPED_TRACE(cat("epoch ", t, ", prefix ", prefix, ", cooldown ", cooldown));
        EXPECT_NEAR(cosine.at(t * kPerEpoch), timm.cosine(t), kRelative);
        EXPECT_NEAR(poly.at(t * kPerEpoch), timm.poly(t, 0.5), kRelative);
        const bool cooling = t >= 100 - cooldown;  // timm's has neither cooldown nor min_lr
        EXPECT_NEAR(step.at(t * kPerEpoch), cooling ? 0 : timm.step(t, 20, 0.7), kRelative);
      }
    }
  }
}

// Rates of every step of a run.
std::vector<double> all_rates(const ScheduleConfig& schedule, std::int64_t steps_per_epoch) {
  OptimConfig optim;
  optim.lr = 1;
  const LearningRate rate(optim, schedule, 1, steps_per_epoch);
  std::vector<double> all;
  for (std::int64_t i = 0; i < rate.total_steps(); ++i) all.push_back(rate.at(i));
  return all;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kRelative) << i;
}

// The list of DINO's cosine_scheduler(1, 0.1, epochs=5, niter_per_ep=2, warmup_epochs=2): both ends
// of the warmup are in it, so the first step has the rate warmup_lr.
TEST(Schedule, DinoWarmsUpToPeakAndFallsEveryStep) {
  ScheduleConfig s = shape("dino");
  s.epochs = 5;
  s.warmup_epochs = 2;
  const double root = std::sqrt(3.0) / 2;  // cos(pi / 6)
  const auto fall = [](double cosine) { return 0.1 + 0.9 * (1 + cosine) / 2; };
  expect_near(all_rates(s, 2),
              {0, 1.0 / 3, 2.0 / 3, 1, 1, fall(root), fall(0.5), fall(0), fall(-0.5), fall(-root)});
  s.warmup_lr = 0.4;
  EXPECT_NEAR(all_rates(s, 2)[1], 0.6, kRelative);
}

TEST(Schedule, DinoTakesShortAndFractionalWarmups) {
  ScheduleConfig s = shape("dino");
  s.epochs = 2;
  s.warmup_lr = 0.25;
  const double root = std::sqrt(0.5);  // cos(pi / 4)
  const auto fall = [](double cosine) { return 0.1 + 0.9 * (1 + cosine) / 2; };
  s.warmup_epochs = 0;
  expect_near(all_rates(s, 2), {1, fall(root), fall(0), fall(-root)});
  s.warmup_epochs = 0.5;  // one step: NumPy's linspace(start, peak, 1) holds the start alone
  expect_near(all_rates(s, 2), {0.25, 1, fall(0.5), fall(-0.5)});
  s.warmup_epochs = 0.9;  // rounded to two steps
  expect_near(all_rates(s, 2), {0.25, 1, 1, fall(0)});
  s.warmup_epochs = 5;  // longer than the run, which ends in the warmup
  expect_near(all_rates(s, 2), {0.25, 0.25 + 0.75 / 9, 0.25 + 1.5 / 9, 0.5});
  s.warmup_epochs = 1;
  EXPECT_NEAR(rate_of(s).at(1000), s.min_lr, kRelative) << "does not rise again";
}

// The list of DINO's cosine_scheduler(0.04, 0.4, epochs=2, niter_per_ep=2).
TEST(WeightDecay, FollowsHalfCosineToItsEnd) {
  OptimConfig optim;
  optim.weight_decay = 0.04;
  EXPECT_EQ(WeightDecay(optim, 4).at(3), 0.04) << "constant";
  optim.weight_decay_end = 0.4;
  const WeightDecay decay(optim, 4);
  const double root = std::sqrt(0.5);  // cos(pi / 4)
  EXPECT_NEAR(decay.at(0), 0.04, kRelative);
  EXPECT_NEAR(decay.at(1), 0.4 - 0.18 * (1 + root), kRelative);
  EXPECT_NEAR(decay.at(2), 0.22, kRelative);
  EXPECT_NEAR(decay.at(3), 0.4 - 0.18 * (1 - root), kRelative);
  EXPECT_NEAR(decay.at(4), 0.4, kRelative);
  EXPECT_NEAR(decay.at(7), 0.4, kRelative) << "does not fall again";
  optim.weight_decay_end = 0;
  EXPECT_NEAR(WeightDecay(optim, 4).at(2), 0.02, kRelative);
}

TEST(Schedule, CountsStepsAsFractionsOfEpochs) {
  ScheduleConfig s = shape("wsd");
  s.epochs.reset();
  s.steps = 25;
  s.warmup_epochs = 0.5;
  s.decay_epochs = 0.8;
  s.cooldown_epochs = 0.2;
  // In steps: warmup from 0 to 5, peak to 15, decay to 23, then two more.
  expect_rates(s, {{0, 0},
                   {0.4, 0.8},
                   {0.5, 1},
                   {1.5, 1},
                   {1.6, 1 - 0.9 / 8},
                   {2.2, 0.1 + 0.9 / 8},
                   {2.3, 0.1},
                   {2.4, 0.1}});
}

// The rate depends on the step only, so a resumed run has the same rates.
TEST(Schedule, DoesNotDependOnStartOfRun) {
  for (const std::string name : {"linear", "step", "wsd"}) {
    ScheduleConfig s = shape(name);
    if (name != "linear") s.decay_epochs = 20;
    const LearningRate whole = rate_of(s);
    for (std::int64_t step = 0; step < 500; ++step) whole.at(step);
    for (std::int64_t step : {500, 813, 999}) EXPECT_EQ(rate_of(s).at(step), whole.at(step));
  }
}

TEST(Schedule, ScalesWithBatchSize) {
  OptimConfig optim;
  optim.lr = 0.5;
  optim.lr_scale_batch = 256;
  const ScheduleConfig s = shape("linear");
  EXPECT_NEAR(LearningRate(optim, s, 512, kPerEpoch).at(500), 0.55, kRelative);
}

TEST(Schedule, RejectsPhasesThatExceedSteps) {
  ScheduleConfig s = shape("wsd");
  s.decay_epochs = 20;
  s.epochs.reset();
  s.steps = 250;
  EXPECT_NO_THROW(rate_of(s));
  s.steps = 249;
  EXPECT_THROW(rate_of(s), ConfigError);
  s = shape("cosine");
  s.epochs = 3;
  EXPECT_NO_THROW(rate_of(s)) << "as ever";
  s.warmup_prefix = true;
  EXPECT_THROW(rate_of(s), ConfigError);
}

}  // namespace
}  // namespace dtn
