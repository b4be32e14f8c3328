// Optimisation, schedule and the training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"

namespace dtn {

// A factor on the learning rate of the parameters whose names match a pattern of the shell's kind.
struct RateMultiple {
  std::string pattern;
  double factor = 1;
  bool operator==(const RateMultiple&) const = default;
};

struct OptimConfig {
  std::string name = "adamw";  // see optimizer_registry()
  double lr = 5e-4;
  std::optional<double> lr_scale_batch;  // N: the rate used is lr x batch / N
  double weight_decay = 0.05;            // decoupled for adamw and lion, else part of the update
  double beta1 = 0.9, beta2 = 0.999;
  std::optional<double> eps = 1e-8;      // unset: the optimizer has none
  std::optional<double> momentum = 0.9;  // sgd's; unset: the optimizer has none
  std::optional<bool> nesterov;          // sgd's; unset: what the optimizer has for a default
  std::optional<double> clip_grad_norm;
  std::optional<double> layer_decay;       // factor on the rate from each layer to the one before
  double lambda_lr_scale = 1;              // on the rate of DTN's lambdas
  std::vector<RateMultiple> lr_multiples;  // the last that matches counts
  bool operator==(const OptimConfig&) const = default;
};

enum class ScheduleKind { kCosine, kConstant, kLinear, kStep, kPoly, kWsd };
enum class SchedulePer { kEpoch, kStep };

struct ScheduleConfig {
  ScheduleKind name = ScheduleKind::kCosine;
  // Exactly one of the two is set; 300 epochs when a config names neither.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  double warmup_epochs = 0;
  double warmup_lr = 1e-6;  // not scaled by the batch, like min_lr
  double min_lr = 1e-5;
  std::optional<SchedulePer> per;  // unset: epoch, or step when `steps` is set
  // step: the epochs at which the rate drops, ascending, or else the epochs from drop to drop.
  std::vector<double> milestones;
  std::optional<double> decay_epochs;  // wsd: the epochs of the way down
  std::optional<double> gamma;         // step: what a drop multiplies the rate by; unset: 0.1
  std::optional<double> power;         // poly; unset: 0.5
  double cooldown_epochs = 0;          // the last epochs of the run, at min_lr
  bool warmup_prefix = false;          // epochs of the schedule count from the end of the warmup
  bool operator==(const ScheduleConfig&) const = default;

  // Whether warmup, way down and cooldown have room in a run of so many epochs. A warmup in front
  // of a cosine without any of these may last longer than the run.
  bool fits(double run_epochs) const {
    if (name != ScheduleKind::kWsd && cooldown_epochs == 0 && !warmup_prefix) return true;
    const double rest = run_epochs - warmup_epochs - cooldown_epochs;
    return rest > 0 && (name != ScheduleKind::kWsd || decay_epochs.value_or(0) <= rest);
  }
};

// A period in optimizer steps, or in epochs when written like `1epoch`.
struct Period {
  std::int64_t count = 0;  // 0: never
  bool epochs = false;
  bool operator==(const Period&) const = default;
};

enum class Precision { kFloat32, kBFloat16, kTf32 };
enum class BestBy { kRaw, kEma };
enum class ReducePrecision { kFloat32, kBFloat16 };

struct TrainConfig {
  int batch_size = 128;            // global: images per optimizer step
  std::optional<int> micro_batch;  // most images per forward pass of a rank; unset: batch_size
  Precision precision = Precision::kFloat32;
  ReducePrecision reduce = ReducePrecision::kFloat32;  // of gradients on their way between ranks
  double label_smoothing = 0;
  std::optional<double> ema;       // decay of the moving average of the weights
  bool ema_warmup = false;         // the decay grows towards that, see MovingAverage
  bool checkpoint_blocks = false;  // recompute each block in the backward pass to save memory
  bool step_graph = true;          // on a CUDA device, replay each step as one captured graph
  Period log_every{10, false};
  Period eval_every{1, true};
  Period checkpoint_every{1, true};
  int keep = 2;  // step checkpoints kept, beside best and last
  BestBy best = BestBy::kRaw;
  bool operator==(const TrainConfig&) const = default;
};

// A whole run, fully resolved.
struct ExperimentConfig {
  std::string name = "run";
  std::uint64_t seed = 0;
  std::string task = "classify";  // see task_registry()
  ModelConfig model;
  DataConfig data;
  AugmentConfig augment;
  OptimConfig optim;
  ScheduleConfig schedule;
  TrainConfig train;
  bool operator==(const ExperimentConfig&) const = default;
};

}  // namespace dtn
