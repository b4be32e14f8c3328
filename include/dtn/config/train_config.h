// Optimisation, schedule and the training run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/diffusion_config.h"
#include "dtn/config/model_config.h"
#include "dtn/config/period.h"
#include "dtn/config/self_supervised_config.h"
#include "dtn/config/translate_config.h"

namespace dtn {

// A factor on the learning rate of the parameters whose names match a shell pattern.
struct RateMultiple {
  std::string pattern;
  double factor = 1;
  bool operator==(const RateMultiple&) const = default;
};

// Coefficients of Muon's orthogonalisation, and the scaling of its steps.
enum class NsCoefficients { kOriginal, kQuintic };
// Scale of Muon's steps: the size of AdamW's steps, or as in the original code.
enum class MuonScale { kMatchRmsAdamw, kOriginal };

// Parameters with weight decay: weights of layers only, or also biases, norms, tokens and
// positions.
enum class DecayScope { kMatrices, kAll };

// The section `optim` of a config.
struct OptimConfig {
  std::string name = "adamw";  // see optimizer_registry()
  double lr = 5e-4;
  std::optional<double> lr_scale_batch;  // N: the effective rate is lr x batch / N
  double weight_decay = 0.05;            // decoupled for adamw, lion and muon, else in the update
  // Decay at the end of a half cosine over the run, see WeightDecay; unset: constant.
  std::optional<double> weight_decay_end;
  DecayScope decay = DecayScope::kMatrices;
  double beta1 = 0.9, beta2 = 0.999;
  std::optional<double> eps = 1e-8;               // unset: the optimizer has none
  std::optional<double> momentum = 0.9;           // sgd, muon; unset: the optimizer has none
  std::optional<bool> nesterov;                   // sgd, muon; unset: the optimizer's default
  std::optional<NsCoefficients> ns_coefficients;  // muon; unset: original
  std::optional<MuonScale> muon_scale;            // muon; unset: match_rms_adamw
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_param_norm;   // max gradient norm of each parameter by itself
  std::optional<double> clip_adaptive;     // max ratio of a unit's gradient norm to its weight norm
  bool clip_adaptive_head = false;         // also clip the units of the head
  std::optional<double> layer_decay;       // factor on the rate from each layer to the one before
  double lambda_lr_scale = 1;              // factor on the rate of DTN's lambdas
  std::vector<RateMultiple> lr_multiples;  // the last match applies
  bool operator==(const OptimConfig&) const = default;

  // The largest rate of the schedule, for a global batch size.
  double peak_lr(std::int64_t batch) const {
    return lr * (lr_scale_batch ? static_cast<double>(batch) / *lr_scale_batch : 1.0);
  }
};

// Unit of time at which the learning rate changes.
enum class SchedulePer { kEpoch, kStep };

// The section `schedule` of a config.
struct ScheduleConfig {
  std::string name = "cosine";  // see schedule_registry()
  // Exactly one of the two is set; 300 epochs if a config sets neither.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  double warmup_epochs = 0;
  std::optional<std::int64_t> warmup_steps;  // rsqrt
  double warmup_lr = 1e-6;                   // not scaled by the batch, like min_lr
  double min_lr = 1e-5;
  std::optional<SchedulePer> per;  // unset: epoch, or step when `steps` is set
  // step: epochs at which the rate drops, ascending; or the epochs between drops (decay_epochs).
  std::vector<double> milestones;
  std::optional<double> decay_epochs;  // wsd: epochs of the final decay
  std::optional<double> gamma;         // step: factor on the rate at each drop; unset: 0.1
  std::optional<double> power;         // poly; unset: 0.5
  double cooldown_epochs = 0;          // the last epochs of the run, at min_lr
  bool warmup_prefix = false;          // epochs of the schedule count from the end of the warmup
  bool operator==(const ScheduleConfig&) const = default;

  // True if a run of this many epochs has room for warmup, cooldown and the min_epochs of the
  // schedule between them. Without min_epochs, cooldown and warmup_prefix it is always true: the
  // warmup may last longer than the run.
  bool fits(double run_epochs, std::optional<double> min_epochs) const {
    if (!min_epochs && cooldown_epochs == 0 && !warmup_prefix) return true;
    const double rest = run_epochs - warmup_epochs - cooldown_epochs;
    return rest > 0 && min_epochs.value_or(0) <= rest;
  }
};

// Type of activations and matrix products. kTf32: float32, with products in TF32 on
// a CUDA device.
enum class Precision { kFloat32, kBFloat16, kTf32 };
// Weights whose evaluation decides which checkpoint is the best: trained or averaged.
enum class BestBy { kRaw, kEma };
// Loss of classification: softmax cross-entropy, binary cross-entropy of each class, or focal loss.
enum class LossKind { kCrossEntropy, kBinary, kFocal };

// Weights of the classes in the loss.
struct ClassWeights {
  bool balanced = false;       // N / (K n_c) for a class with n_c of the N training samples
  std::vector<double> values;  // or one for each class; empty, without `balanced`: none
  bool any() const { return balanced || !values.empty(); }
  bool operator==(const ClassWeights&) const = default;
};
// Type in which gradients are sent between ranks.
enum class ReducePrecision { kFloat32, kBFloat16 };

// Parameters that training does not change.
struct FreezeConfig {
  bool backbone = false;              // all but head*; the model then runs as in an evaluation
  std::vector<std::string> patterns;  // or parameters whose names match shell patterns
  bool any() const { return backbone || !patterns.empty(); }
  bool operator==(const FreezeConfig&) const = default;
};

// The section `train` of a config.
// The end of a run whose evaluations no longer get better.
struct EarlyStopConfig {
  std::optional<int> patience;        // evaluations without a better figure; unset: never
  std::optional<std::string> metric;  // the figure; unset: the one that decides which is the best
  bool operator==(const EarlyStopConfig&) const = default;
};

struct TrainConfig {
  int batch_size = 128;            // global: images per optimizer step
  std::optional<int> micro_batch;  // max images per forward pass of a rank; unset: batch_size
  Precision precision = Precision::kFloat32;
  ReducePrecision reduce = ReducePrecision::kFloat32;  // of gradients sent between ranks
  LossKind loss = LossKind::kCrossEntropy;
  double label_smoothing = 0;
  ClassWeights class_weights;
  std::optional<double> focal_gamma;  // exponent of the focal loss; unset: 2
  // Binary cross-entropy: targets become 1 above the threshold and 0 elsewhere (unset: unchanged);
  // the loss of an image is the sum over the classes instead of the mean.
  std::optional<double> bce_target_threshold;
  bool bce_sum = false;
  FreezeConfig freeze;
  std::optional<double> ema;       // decay of the moving average of the weights
  bool ema_warmup = false;         // the decay grows towards `ema`, see MovingAverage
  bool checkpoint_blocks = false;  // recompute each block in the backward pass to save memory
  bool step_graph = true;          // on a CUDA device, replay each step as one captured graph
  Period log_every{10, false};
  // Period at which DTN's lambdas are written to norms.jsonl; 0: only at the start and after the
  // last step; unset: never.
  std::optional<Period> log_norms;
  std::optional<Period> log_histograms;
  Period eval_every{1, true};
  Period checkpoint_every{1, true};
  int keep = 2;                      // step checkpoints kept besides best and last
  std::optional<Period> keep_every;  // period of checkpoints that stay; unset: none
  BestBy best = BestBy::kRaw;
  EarlyStopConfig early_stop{};
  bool operator==(const TrainConfig&) const = default;

  // The exponent of the focal factor; 0 for a loss without it.
  double focal_exponent() const { return loss == LossKind::kFocal ? focal_gamma.value_or(2) : 0; }
};

// Target of distillation: the teacher's top class, or its probabilities.
enum class DistillType { kHard, kSoft };
// Soft distillation loss of a sample: the sum over the classes, or their mean.
enum class DistillReduction { kBatch, kElements };

// A second loss against the outputs of a trained model for the same images:
//     (1 - alpha) loss + alpha distillation
struct DistillConfig {
  // Weights: a run, a checkpoint of a run, or a safetensors file; unset: no teacher. The config of
  // a checkpoint holds the fingerprint of the weights instead of their path.
  std::optional<std::string> teacher;
  std::optional<std::string> teacher_config;  // for a weights file without a config
  DistillType type = DistillType::kHard;      // the teacher's top class, or its probabilities
  double alpha = 0.5;
  double temperature = 1;                                 // soft: logits are divided by it
  DistillReduction reduction = DistillReduction::kBatch;  // soft: sum over classes, or mean
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
  DinoConfig dino;
  SupconConfig supcon;
  DiffusionConfig diffusion;
  TranslateConfig translate;
  bool operator==(const ExperimentConfig&) const = default;
};

}  // namespace dtn
