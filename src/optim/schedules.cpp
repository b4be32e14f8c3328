// The schedules of the library. t and S are the epoch and the length of ScheduleTime.
#include "optim/schedules.h"

#include <cmath>
#include <numbers>

#include "dtn/optim/schedule.h"

namespace dtn {
namespace {

using Problem = std::optional<ConfigProblem>;

std::vector<std::string> warmup_keys() { return {"warmup_epochs", "warmup_lr", "per"}; }

// Returns `more` and the keys of all schedules that come down to min_lr.
std::vector<std::string> falling_keys(std::vector<std::string> more = {}) {
  std::vector<std::string> keys = warmup_keys();
  keys.insert(keys.end(), {"min_lr", "cooldown_epochs", "warmup_prefix"});
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// Returns a problem if the schedule would rise to min_lr.
Problem check_fall(const ScheduleConfig& s, double peak) {
  if (s.min_lr <= peak) return {};
  return ConfigProblem{{"schedule.min_lr", "optim.lr"},
                       cat("schedule.min_lr ", s.min_lr, " is above the rate ", peak,
                           " that the schedule '", s.name, "' comes down from; lower it")};
}

ScheduleEntry constant_schedule() {
  return {{"constant", "the peak", warmup_keys()},
          [](const ScheduleConfig&, double peak) -> RateCurve {
            return [peak](const ScheduleTime&) { return peak; };
          }};
}

//     min_lr + (peak - min_lr) (1 + cos(pi t / S)) / 2
// It may rise to min_lr, and a long warmup may cut it off: older configs rely on it.
ScheduleEntry cosine_schedule() {
  return {{"cosine", "half a cosine from the peak to min_lr", falling_keys()},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            return [min_lr = s.min_lr, height = peak - s.min_lr](const ScheduleTime& time) {
              return min_lr + height * (1 + std::cos(std::numbers::pi * time.progress())) / 2;
            };
          }};
}

//     min_lr + (peak - min_lr) (1 - t / S)
ScheduleEntry linear_schedule() {
  return {{"linear", "a straight line from the peak to min_lr", falling_keys(), check_fall},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            return [min_lr = s.min_lr, height = peak - s.min_lr](const ScheduleTime& time) {
              return min_lr + height * (1 - time.progress());
            };
          }};
}

//     min_lr + (peak - min_lr) (1 - t / S)^power
ScheduleEntry poly_schedule() {
  return {
      {"poly", "a power of the remaining share of the run", falling_keys({"power"}), check_fall},
      [](const ScheduleConfig& s, double peak) -> RateCurve {
        return [min_lr = s.min_lr, height = peak - s.min_lr,
                power = s.power.value_or(0.5)](const ScheduleTime& time) {
          return min_lr + height * std::pow(1 - time.progress(), power);
        };
      }};
}

Problem check_step(const ScheduleConfig& s, double peak) {
  if (s.milestones.empty() && !s.decay_epochs) {
    return ConfigProblem{
        {"schedule.name"},
        "the schedule 'step' needs schedule.milestones, the epochs at which the rate drops, or "
        "schedule.decay_epochs, the number of epochs between drops"};
  }
  if (!s.milestones.empty() && s.decay_epochs) {
    return ConfigProblem{
        {"schedule.decay_epochs", "schedule.milestones"},
        "schedule.milestones and schedule.decay_epochs are both set; keep one of them"};
  }
  const auto wrong = std::ranges::adjacent_find(s.milestones, std::greater_equal());
  if (wrong != s.milestones.end()) {
    return ConfigProblem{
        {"schedule.milestones"},
        cat("schedule.milestones must ascend, but ", wrong[1], " comes after ", wrong[0])};
  }
  return check_fall(s, peak);
}

// Returns the number of drops up to epoch t.
double drops(const ScheduleConfig& s, double t) {
  if (s.decay_epochs) return std::floor(t / *s.decay_epochs + kNearly);
  return static_cast<double>(
      std::ranges::count_if(s.milestones, [=](double epoch) { return t + kNearly >= epoch; }));
}

//     peak gamma^k, at least min_lr; k: milestones up to t, or floor(t / decay_epochs)
ScheduleEntry step_schedule() {
  return {{"step", "drops by a factor, at given epochs or at equal intervals",
           falling_keys({"milestones", "decay_epochs", "gamma"}), check_step},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            return [s, peak](const ScheduleTime& time) {
              return std::max(s.min_lr,
                              peak * std::pow(s.gamma.value_or(0.1), drops(s, time.epoch)));
            };
          }};
}

Problem check_wsd(const ScheduleConfig& s, double peak) {
  if (s.decay_epochs) return check_fall(s, peak);
  return ConfigProblem{
      {"schedule.name"},
      "the schedule 'wsd' needs schedule.decay_epochs, the number of epochs of its way down"};
}

//     min_lr + (peak - min_lr) (S - t) / decay_epochs, at most peak
ScheduleEntry wsd_schedule() {
  return {{"wsd", "the peak, then a straight line to min_lr in the last epochs",
           falling_keys({"decay_epochs"}), check_wsd,
           [](const ScheduleConfig& s) { return s.decay_epochs.value_or(0); }},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            return [min_lr = s.min_lr, peak,
                    decay = s.decay_epochs.value()](const ScheduleTime& time) {
              const double left = std::max(0.0, time.length - time.epoch) / decay;
              return left >= 1 ? peak : min_lr + (peak - min_lr) * left;
            };
          }};
}

// As in DINO's training code (Caron et al., ICCV 2021), for step i of n, with w steps of warmup:
//     i < w:      warmup_lr + (peak - warmup_lr) i / (w - 1); warmup_lr if w = 1
//     otherwise:  min_lr + (peak - min_lr) (1 + cos(pi (i - w) / (n - w))) / 2
double dino_rate(const ScheduleConfig& s, double peak, const ScheduleTime& time) {
  const auto i = static_cast<double>(time.step), w = static_cast<double>(time.warmup_steps),
             n = static_cast<double>(time.total_steps);
  if (i < w) return w > 1 ? s.warmup_lr + (peak - s.warmup_lr) * (i / (w - 1)) : s.warmup_lr;
  const double progress = i < n ? (i - w) / (n - w) : 1.0;
  return s.min_lr + (peak - s.min_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

ScheduleEntry dino_schedule() {
  return {{"dino",
           "as in DINO: a warmup that ends at the peak, then half a cosine, step by step",
           {"warmup_epochs", "warmup_lr", "min_lr"},
           check_fall,
           {},
           [](ScheduleConfig& s) {
             s.warmup_lr = 0;
             s.min_lr = 1e-6;
           }},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            return [s, peak](const ScheduleTime& time) { return dino_rate(s, peak, time); };
          },
          true};
}

Problem check_rsqrt(const ScheduleConfig& s, double) {
  if (s.warmup_steps) return {};
  return ConfigProblem{
      {"schedule.name"},
      "the schedule 'rsqrt' needs schedule.warmup_steps, the steps in which the rate rises"};
}

// As in the Long-Range Arena (Tay et al., 2021), with w = warmup_steps:
//     peak min(1, step / w) / sqrt(max(step, w))
ScheduleEntry rsqrt_schedule() {
  return {{"rsqrt", "the reciprocal square root of the step", {"warmup_steps"}, check_rsqrt},
          [](const ScheduleConfig& s, double peak) -> RateCurve {
            const auto w = static_cast<double>(s.warmup_steps.value());
            return [peak, w](const ScheduleTime& time) {
              const auto t = static_cast<double>(time.step);
              return peak * std::min(1.0, t / w) / std::sqrt(std::max(t, w));
            };
          }};
}

}  // namespace

const ScheduleRegistry& schedule_registry() {
  static const ScheduleRegistry ours(
      "schedule", {cosine_schedule(), constant_schedule(), linear_schedule(), step_schedule(),
                   poly_schedule(), wsd_schedule(), rsqrt_schedule(), dino_schedule()});
  return ours;
}

}  // namespace dtn
