// Keys of the optimizer, the schedule, the run and its teacher.
#include "config/key_rows.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<DecayScope>() {
  static const std::array<std::string, 2> names = {"matrices", "all"};
  return names;
}
template <>
std::span<const std::string> names_of<SchedulePer>() {
  static const std::array<std::string, 2> names = {"epoch", "step"};
  return names;
}
template <>
std::span<const std::string> names_of<Precision>() {
  static const std::array<std::string, 3> names = {"fp32", "bf16", "tf32"};
  return names;
}
template <>
std::span<const std::string> names_of<ReducePrecision>() {
  static const std::array<std::string, 2> names = {"fp32", "bf16"};
  return names;
}
template <>
std::span<const std::string> names_of<BestBy>() {
  static const std::array<std::string, 2> names = {"raw", "ema"};
  return names;
}
template <>
std::span<const std::string> names_of<NsCoefficients>() {
  static const std::array<std::string, 2> names = {"original", "quintic"};
  return names;
}
template <>
std::span<const std::string> names_of<MuonScale>() {
  static const std::array<std::string, 2> names = {"match_rms_adamw", "original"};
  return names;
}
template <>
std::span<const std::string> names_of<DistillType>() {
  static const std::array<std::string, 2> names = {"hard", "soft"};
  return names;
}
template <>
std::span<const std::string> names_of<DistillReduction>() {
  static const std::array<std::string, 2> names = {"batch", "elements"};
  return names;
}
template <>
std::span<const std::string> names_of<LossKind>() {
  static const std::array<std::string, 2> names = {"ce", "bce"};
  return names;
}

namespace {

// Parses "pattern=factor".
RateMultiple rate_multiple(const Field& field) {
  RateMultiple multiple;
  const std::string& text = field.node.text;
  const std::size_t equals = field.node.is_scalar() ? text.rfind('=') : std::string::npos;
  if (equals == std::string::npos || equals == 0 ||
      !parse_number(std::string_view(text).substr(equals + 1), multiple.factor)) {
    fail(field, "must be a list of texts like \"head.*=10\", not ", shown(field.node));
  }
  check_range(field, at_least(0), multiple.factor, text);
  multiple.pattern = text.substr(0, equals);
  return multiple;
}

Key rate_multiples() {
  return {"optim.lr_multiples",
          "factors on the rate of the weights whose names match a pattern; the last match counts",
          [](const Field& f, ExperimentConfig& c) {
            c.optim.lr_multiples.clear();
            if (f.node.is_list()) {
              for (const Node& item : f.node.items) {
                c.optim.lr_multiples.push_back(rate_multiple({item, f.path, f.doc}));
              }
            } else {
              c.optim.lr_multiples.push_back(rate_multiple(f));
            }
          },
          [](const ExperimentConfig& c) -> std::string {
            std::string out;
            for (const RateMultiple& m : c.optim.lr_multiples) {
              out += cat(out.empty() ? "" : ", ",
                         string_text(cat(m.pattern, "=", number_text(m.factor))));
            }
            return out.empty() ? "null" : cat("[", out, "]");
          },
          "list of \"pattern=factor\", factors at least 0",
          kAny,
          {},
          "[\"head.*=10\", \"*_norm_weight=100\"]"};
}

// Parses "none", "backbone" or a list of patterns.
void read_freeze(const Field& field, FreezeConfig& freeze) {
  const auto refuse = [&](const Node& node) {
    fail(Field{node, field.path, field.doc}, "must be none, backbone or a list of patterns, not ",
         shown(node));
  };
  freeze = {};
  if (!field.node.is_list()) {
    freeze.backbone = field.node.is_scalar() && field.node.text == "backbone";
    if (!freeze.backbone && !(field.node.is_scalar() && field.node.text == "none")) {
      refuse(field.node);
    }
    return;
  }
  for (const Node& item : field.node.items) {
    if (!item.is_scalar() || item.is_null() || item.text.empty()) refuse(item);
    freeze.patterns.push_back(item.text);
  }
}

std::string write_freeze(const FreezeConfig& freeze) {
  if (freeze.backbone) return "backbone";
  std::string out;
  for (const std::string& pattern : freeze.patterns) {
    out += cat(out.empty() ? "" : ", ", string_text(pattern));
  }
  return out.empty() ? "none" : cat("[", out, "]");
}

Key freeze() {
  return {"train.freeze",
          "parameters that training does not change: none; backbone (all but the head; the model "
          "then runs as in an evaluation); or patterns of parameter names",
          [](const Field& f, ExperimentConfig& c) { read_freeze(f, c.train.freeze); },
          [](const ExperimentConfig& c) { return write_freeze(c.train.freeze); },
          "none, backbone or list of patterns",
          kAny,
          {},
          "[patch_embed.*, \"blocks.[0-5].*\"]"};
}

}  // namespace

std::vector<Key> train_keys() {
  return {
      value("optim.name", FIELD(optim.name), kAny, "name of the optimizer; see docs/optimizers.md"),
      value("optim.lr", FIELD(optim.lr), above(0),
            "peak learning rate of the schedule, before lr_scale_batch"),
      value("optim.lr_scale_batch", FIELD(optim.lr_scale_batch), above(0),
            "batch size N that optim.lr is meant for; the rate is lr x batch_size / N; unset: lr "
            "is not scaled",
            "512"),
      value("optim.weight_decay", FIELD(optim.weight_decay), at_least(0),
            "decay of weights with two or more dimensions; see optim.decay"),
      choice("optim.decay", FIELD(optim.decay),
             "parameters that weight_decay applies to: matrices (weights with two or more "
             "dimensions) or all (also biases, norms, tokens and positions)"),
      pair("optim.betas", FIELD(optim.beta1), FIELD(optim.beta2), fraction(),
           "decay rates of the moving averages of the gradient and of its square: the share that "
           "each step keeps"),
      value("optim.eps", FIELD(optim.eps), above(0),
            "added to the square root of the average squared gradient"),
      value("optim.momentum", FIELD(optim.momentum), fraction(),
            "share of the velocity that each step keeps"),
      value("optim.nesterov", FIELD(optim.nesterov), kAny,
            "uses Nesterov's momentum: the step looks one step ahead; unset: false for sgd, true "
            "for muon",
            "true"),
      choice(
          "optim.ns_coefficients", FIELD(optim.ns_coefficients),
          "coefficients of the five polynomials that orthogonalise a momentum: original uses one "
          "steep polynomial five times, quintic uses five different polynomials; unset: original",
          "quintic"),
      choice("optim.muon_scale", FIELD(optim.muon_scale),
             "scale of orthogonal steps: match_rms_adamw (the size of AdamW's steps, so that its "
             "rate and decay carry over) or original (from the shape of the matrix); unset: "
             "match_rms_adamw",
             "original"),
      value("optim.clip_grad_norm", FIELD(optim.clip_grad_norm), above(0),
            "largest gradient norm over all weights; a gradient with a larger norm is scaled down "
            "to it; unset: no clipping",
            "1"),
      value("optim.clip_adaptive", FIELD(optim.clip_adaptive), above(0),
            "adaptive clipping: largest gradient norm of each output's weights, relative to the "
            "norm of these weights; a larger gradient is scaled down to it; unset: no clipping",
            "0.01"),
      value("optim.clip_adaptive_head", FIELD(optim.clip_adaptive_head), kAny,
            "applies clip_adaptive to the head, too, as in LeViT's recipe"),
      value("optim.layer_decay", FIELD(optim.layer_decay), positive_fraction(),
            "factor on the rate from each layer to the layer before it; the first layers learn "
            "slowest; unset: one rate for all layers",
            "0.75"),
      value("optim.lambda_lr_scale", FIELD(optim.lambda_lr_scale), at_least(0),
            "factor on the rate of DTN's lambdas, the weights named *_norm_weight", "10"),
      rate_multiples(),

      value("schedule.name", FIELD(schedule.name), kAny,
            "shape of the learning rate after the warmup; see docs/schedules.md"),
      value("schedule.epochs", FIELD(schedule.epochs), kPositiveCount,
            "length of the run in epochs, including warmup and cooldown; 300 if steps is not set "
            "either"),
      value("schedule.steps", FIELD(schedule.steps), kPositiveCount,
            "length of the run in optimizer steps, instead of schedule.epochs", "10000"),
      value("schedule.warmup_epochs", FIELD(schedule.warmup_epochs), between(0, 1e6),
            "number of epochs at the start in which the rate rises linearly", "5"),
      value("schedule.warmup_steps", FIELD(schedule.warmup_steps), kPositiveCount,
            "rsqrt: number of steps at the start in which the rate rises linearly", "1000"),
      value("schedule.warmup_lr", FIELD(schedule.warmup_lr), at_least(0),
            "rate at the start of the warmup; not scaled by the batch size"),
      value("schedule.min_lr", FIELD(schedule.min_lr), at_least(0),
            "rate at the end of the schedule; not scaled by the batch size"),
      choice("schedule.per", FIELD(schedule.per),
             "interval at which the rate changes; unset: every epoch, or every step if "
             "schedule.steps is set",
             "step"),
      value("schedule.milestones", FIELD(schedule.milestones), above(0),
            "epochs at which the rate drops, in ascending order", "[30, 60, 80]"),
      value("schedule.decay_epochs", FIELD(schedule.decay_epochs), above(0),
            "step: number of epochs between drops, instead of milestones; wsd: number of epochs of "
            "the final decay",
            "30"),
      value("schedule.gamma", FIELD(schedule.gamma), positive_fraction(),
            "factor on the rate at each drop; unset: 0.1", "0.2"),
      value("schedule.power", FIELD(schedule.power), {.low = 0, .high = 100, .low_open = true},
            "exponent: the rate falls as this power of the remaining share of the run; unset: 0.5",
            "1"),
      value("schedule.cooldown_epochs", FIELD(schedule.cooldown_epochs), between(0, 1e6),
            "number of epochs at the end of the run that stay at min_lr", "10"),
      value("schedule.warmup_prefix", FIELD(schedule.warmup_prefix), kAny,
            "counts the epochs of the schedule from the end of the warmup, not from the start of "
            "the run"),

      value("train.batch_size", FIELD(train.batch_size), between(1, 1 << 24),
            "number of images per optimizer step, over all processes and micro-batches"),
      value("train.micro_batch", FIELD(train.micro_batch), between(1, 1 << 24),
            "number of images per forward pass of each process, to save memory; it must divide "
            "batch_size; unset: all images at once",
            "64"),
      choice("train.precision", FIELD(train.precision),
             "number format of the forward and backward pass; weights and optimizer stay in "
             "float32; tf32 needs a CUDA device"),
      choice("train.reduce", FIELD(train.reduce),
             "number format of the gradients that the processes of a job exchange"),
      choice("train.loss", FIELD(train.loss),
             "loss function: ce (softmax cross-entropy) or bce (binary cross-entropy, which "
             "decides each class separately); see docs/losses.md",
             "bce"),
      value("train.label_smoothing", FIELD(train.label_smoothing), fraction(),
            "share of the target that is spread evenly over all classes", "0.1"),
      value("train.bce_target_threshold", FIELD(train.bce_target_threshold), fraction(),
            "bce: targets above this value become 1 and the others 0; unset: targets do not change",
            "0.2"),
      value("train.bce_sum", FIELD(train.bce_sum), kAny,
            "bce: the loss of an image is the sum over its classes instead of their mean"),
      freeze(),
      value("train.ema", FIELD(train.ema), fraction(),
            "decay of the exponential moving average (EMA) of the weights; the average is "
            "evaluated and saved together with the weights; unset: no average",
            "0.9999"),
      value("train.ema_warmup", FIELD(train.ema_warmup), kAny,
            "lets the decay of the average grow from 0 to train.ema, for short runs"),
      value("train.checkpoint_blocks", FIELD(train.checkpoint_blocks), kAny,
            "recomputes each block in the backward pass, which needs less memory and more time"),
      value("train.step_graph", FIELD(train.step_graph), kAny,
            "replays each step as one captured graph, on a CUDA device; use false to debug, and "
            "for padded sequences with bn, in, gn, sn or power"),
      value("train.log_every", FIELD(train.log_every), kCount,
            "interval at which the training loss is logged; 0: never"),
      value("train.log_norms", FIELD(train.log_norms), kCount,
            "interval at which the lambdas of Dynamic Token Normalization are written to "
            "norms.jsonl, for dtn-analyze; the start and the last step are always written, and the "
            "checkpoint of the start is kept; 0: only these two; unset: none",
            "1epoch"),
      value("train.log_histograms", FIELD(train.log_histograms), kCount,
            "interval at which TensorBoard gets a histogram of every parameter and of its "
            "gradient, each about a kilobyte; unset: never",
            "1epoch"),
      value("train.eval_every", FIELD(train.eval_every), kCount,
            "interval at which the validation split is evaluated; 0: only at the end"),
      value("train.checkpoint_every", FIELD(train.checkpoint_every), kCount,
            "interval at which a checkpoint is written; 0: only at the end"),
      value("train.keep", FIELD(train.keep), between(0, 1e6),
            "number of the newest checkpoints to keep; the last, the best and the newest one with "
            "a finite loss are always kept"),
      choice("train.best", FIELD(train.best),
             "weights whose top-1 decides which checkpoint is the best: raw (the weights "
             "themselves) or ema (their moving average)"),

      value("distill.teacher", FIELD(distill.teacher), kAny,
            "weights of the teacher, a trained model whose outputs this model learns for the same "
            "images: a run, a checkpoint or a safetensors file; unset: no teacher",
            "runs/teacher"),
      value("distill.teacher_config", FIELD(distill.teacher_config), kAny,
            "config of the teacher's model, if its file has none", "deit_small"),
      choice("distill.type", FIELD(distill.type),
             "target from the teacher: hard (its top class) or soft (all its probabilities)"),
      value("distill.alpha", FIELD(distill.alpha), between(0, 1),
            "share of the loss against the teacher in the total loss; the rest is train.loss"),
      value("distill.temperature", FIELD(distill.temperature), above(0),
            "soft: logits are divided by this value, and the loss is multiplied by its square",
            "3"),
      choice("distill.reduction", FIELD(distill.reduction),
             "soft: reduction of the divergence over the classes: batch (sum, as in timm) or "
             "elements (mean, as in DeiT's code)"),
  };
}

}  // namespace dtn::config
