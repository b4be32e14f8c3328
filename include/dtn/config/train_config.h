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

// Coefficients of Muon's orthogonalisation, and what its steps are scaled by.
enum class NsCoefficients { kOriginal, kQuintic };
enum class MuonScale { kMatchRmsAdamw, kOriginal };

// What has the weight decay: weights of layers, or biases, norms, tokens and positions, too.
enum class DecayScope { kMatrices, kAll };

struct OptimConfig {
  std::string name = "adamw";  // see optimizer_registry()
  double lr = 5e-4;
  std::optional<double> lr_scale_batch;  // N: the rate used is lr x batch / N
  double weight_decay = 0.05;            // decoupled for adamw and lion, else part of the update
  DecayScope decay = DecayScope::kMatrices;
  double beta1 = 0.9, beta2 = 0.999;
  std::optional<double> eps = 1e-8;      // unset: the optimizer has none
  std::optional<double> momentum = 0.9;  // sgd's, muon's; unset: the optimizer has none
  std::optional<bool> nesterov;          // theirs; unset: what the optimizer has for a default
  std::optional<NsCoefficients> ns_coefficients;  // muon's; unset: original
  std::optional<MuonScale> muon_scale;            // muon's; unset: match_rms_adamw
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_adaptive;  // largest norm of a unit's gradient to that of its weights
  bool clip_adaptive_head = false;      // the head's units, too
  std::optional<double> layer_decay;    // factor on the rate from each layer to the one before
  double lambda_lr_scale = 1;           // on the rate of DTN's lambdas
  std::vector<RateMultiple> lr_multiples;  // the last that matches counts
  bool operator==(const OptimConfig&) const = default;
};

enum class ScheduleKind { kCosine, kConstant, kLinear, kStep, kPoly, kWsd, kRsqrt };
enum class SchedulePer { kEpoch, kStep };

struct ScheduleConfig {
  ScheduleKind name = ScheduleKind::kCosine;
  // Exactly one of the two is set; 300 epochs when a config names neither.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  double warmup_epochs = 0;
  std::optional<std::int64_t> warmup_steps;  // rsqrt
  double warmup_lr = 1e-6;                   // not scaled by the batch, like min_lr
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
enum class LossKind { kCrossEntropy, kBinary };
enum class ReducePrecision { kFloat32, kBFloat16 };

// What keeps its values in training.
struct FreezeConfig {
  bool backbone = false;              // all but head*; the model then runs as in an evaluation
  std::vector<std::string> patterns;  // or parameters by name, patterns of the shell's kind
  bool any() const { return backbone || !patterns.empty(); }
  bool operator==(const FreezeConfig&) const = default;
};

struct TrainConfig {
  int batch_size = 128;            // global: images per optimizer step
  std::optional<int> micro_batch;  // most images per forward pass of a rank; unset: batch_size
  Precision precision = Precision::kFloat32;
  ReducePrecision reduce = ReducePrecision::kFloat32;  // of gradients on their way between ranks
  LossKind loss = LossKind::kCrossEntropy;
  double label_smoothing = 0;
  // Of binary cross-entropy: targets become 1 above this and 0 elsewhere (unset: they stay); the
  // loss of an image is the sum over the classes in place of their mean.
  std::optional<double> bce_target_threshold;
  bool bce_sum = false;
  FreezeConfig freeze;
  std::optional<double> ema;       // decay of the moving average of the weights
  bool ema_warmup = false;         // the decay grows towards that, see MovingAverage
  bool checkpoint_blocks = false;  // recompute each block in the backward pass to save memory
  bool step_graph = true;          // on a CUDA device, replay each step as one captured graph
  Period log_every{10, false};
  // How often the shares of a token's own statistics go to norms.jsonl; unset: never.
  std::optional<Period> log_norms;
  std::optional<Period> log_histograms;
  Period eval_every{1, true};
  Period checkpoint_every{1, true};
  int keep = 2;  // step checkpoints kept, beside best and last
  BestBy best = BestBy::kRaw;
  bool operator==(const TrainConfig&) const = default;
};

enum class DistillType { kHard, kSoft };
enum class DistillReduction { kBatch, kElements };

// A second loss against what a trained model says of the same images:
// (1 - alpha) loss + alpha distillation.
struct DistillConfig {
  // Weights: a run, a checkpoint of one, or a safetensors file; unset: no teacher. In the config of
  // a checkpoint, the fingerprint of its weights in place of where they lay.
  std::optional<std::string> teacher;
  std::optional<std::string> teacher_config;  // of a file that carries none
  DistillType type = DistillType::kHard;      // the teacher's first class, or all its probabilities
  double alpha = 0.5;
  double temperature = 1;                                 // soft: logits are divided by it
  DistillReduction reduction = DistillReduction::kBatch;  // soft: the sum over classes, or the mean
  bool operator==(const DistillConfig&) const = default;
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
  DistillConfig distill;
  bool operator==(const ExperimentConfig&) const = default;
};

}  // namespace dtn
