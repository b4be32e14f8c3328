// Keys of the optimizer, the schedule, the run and its teacher.
#include <algorithm>

#include "config/key_rows.h"

namespace dtn::config {
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
            const std::string out = join(c.optim.lr_multiples, ", ", [](const RateMultiple& m) {
              return string_text(cat(m.pattern, "=", number_text(m.factor)));
            });
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
  return freeze.patterns.empty() ? "none" : list_text(freeze.patterns);
}

// Parses "none", "balanced" or a list of weights.
void read_class_weights(const Field& field, ClassWeights& weights) {
  const auto refuse = [&](const Node& node) {
    fail(Field{node, field.path, field.doc}, "must be none, balanced or a list of weights, not ",
         shown(node));
  };
  weights = {};
  if (!field.node.is_list()) {
    weights.balanced = field.node.is_scalar() && field.node.text == "balanced";
    if (!weights.balanced && !(field.node.is_scalar() && field.node.text == "none")) {
      refuse(field.node);
    }
    return;
  }
  for (const Node& item : field.node.items) {
    double weight = 0;
    if (!item.is_scalar() || !parse_number(item.text, weight)) refuse(item);
    check_range(field, at_least(0), weight, item.text);
    weights.values.push_back(weight);
  }
  if (std::ranges::all_of(weights.values, [](double w) { return w == 0; })) {
    fail(field, "must have a weight above 0");
  }
}

std::string write_class_weights(const ClassWeights& weights) {
  if (weights.balanced) return "balanced";
  return weights.values.empty() ? "none" : list_text(weights.values);
}

Key class_weights() {
  return {"train.class_weights",
          "weights of the classes in the loss, as in PyTorch's cross-entropy: none; balanced (N / "
          "(K n) for a class with n of the N training images, and K classes); or a list with one "
          "weight for each class; see docs/uneven-classes.md",
          [](const Field& f, ExperimentConfig& c) { read_class_weights(f, c.train.class_weights); },
          [](const ExperimentConfig& c) { return write_class_weights(c.train.class_weights); },
          "none, balanced or list of numbers",
          kAny,
          {},
          "balanced"};
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
      value(KEY(optim.name), "name of the optimizer; see docs/optimizers.md"),
      value(KEY(optim.lr), above(0), "peak learning rate of the schedule, before lr_scale_batch"),
      value(KEY(optim.lr_scale_batch), above(0), "512",
            "batch size N that optim.lr is meant for; the rate is lr x batch_size / N; unset: lr "
            "is not scaled"),
      value(KEY(optim.weight_decay), at_least(0),
            "decay of weights with two or more dimensions; see optim.decay"),
      value(KEY(optim.weight_decay_end), at_least(0), "0.4",
            "weight decay at the end of the run: the decay goes there from weight_decay along half "
            "a cosine, step by step; unset: constant decay"),
      choice(KEY(optim.decay), {"matrices", "all"},
             "parameters that weight_decay applies to: matrices (weights with two or more "
             "dimensions) or all (also biases, norms, tokens and positions)"),
      pair("optim.betas", FIELD(optim.beta1), FIELD(optim.beta2), fraction(),
           "decay rates of the moving averages of the gradient and of its square: the share that "
           "each step keeps"),
      value(KEY(optim.eps), above(0), "added to the square root of the average squared gradient"),
      value(KEY(optim.momentum), fraction(), "share of the velocity that each step keeps"),
      value(KEY(optim.nesterov), "true",
            "uses Nesterov's momentum: the step looks one step ahead; unset: false for sgd, true "
            "for muon"),
      choice(
          KEY(optim.ns_coefficients), {"original", "quintic"}, "quintic",
          "coefficients of the five polynomials that orthogonalise a momentum: original uses one "
          "steep polynomial five times, quintic uses five different polynomials; unset: original"),
      choice(KEY(optim.muon_scale), {"match_rms_adamw", "original"}, "original",
             "scale of orthogonal steps: match_rms_adamw (the size of AdamW's steps, so that its "
             "rate and decay carry over) or original (from the shape of the matrix); unset: "
             "match_rms_adamw"),
      value(KEY(optim.clip_grad_norm), at_least(0), "1",
            "largest gradient norm over all weights; a gradient with a larger norm is scaled down "
            "to it; 0 or unset: no clipping"),
      value(KEY(optim.clip_param_norm), above(0), "3",
            "largest gradient norm of each parameter by itself, as in DINO; a larger gradient is "
            "scaled down to it; unset: no clipping"),
      value(KEY(optim.clip_adaptive), above(0), "0.01",
            "adaptive clipping: largest gradient norm of each output's weights, relative to the "
            "norm of these weights; a larger gradient is scaled down to it; unset: no clipping"),
      value(KEY(optim.clip_adaptive_head),
            "applies clip_adaptive to the head, too, as in LeViT's recipe"),
      value(KEY(optim.layer_decay), positive_fraction(), "0.75",
            "factor on the rate from each layer to the layer before it; the first layers learn "
            "slowest; unset: one rate for all layers"),
      value(KEY(optim.lambda_lr_scale), at_least(0), "10",
            "factor on the rate of DTN's lambdas, the weights named *_norm_weight"),
      rate_multiples(),

      value(KEY(schedule.name),
            "shape of the learning rate after the warmup; see docs/schedules.md"),
      value(KEY(schedule.epochs), kPositiveCount,
            "length of the run in epochs, including warmup and cooldown; 300 if steps is not set "
            "either"),
      value(KEY(schedule.steps), kPositiveCount, "10000",
            "length of the run in optimizer steps, instead of schedule.epochs"),
      value(KEY(schedule.warmup_epochs), between(0, 1e6), "5",
            "number of epochs at the start in which the rate rises linearly"),
      value(KEY(schedule.warmup_steps), kPositiveCount, "1000",
            "rsqrt: number of steps at the start in which the rate rises linearly"),
      value(KEY(schedule.warmup_lr), at_least(0),
            "rate at the start of the warmup; not scaled by the batch size"),
      value(KEY(schedule.min_lr), at_least(0),
            "rate at the end of the schedule; not scaled by the batch size"),
      choice(KEY(schedule.per), {"epoch", "step"}, "step",
             "interval at which the rate changes; unset: every epoch, or every step if "
             "schedule.steps is set"),
      value(KEY(schedule.milestones), above(0), "[30, 60, 80]",
            "epochs at which the rate drops, in ascending order"),
      value(KEY(schedule.decay_epochs), above(0), "30",
            "step: number of epochs between drops, instead of milestones; wsd: number of epochs of "
            "the final decay"),
      value(KEY(schedule.gamma), positive_fraction(), "0.2",
            "factor on the rate at each drop; unset: 0.1"),
      value(KEY(schedule.power), {.low = 0, .high = 100, .low_open = true}, "1",
            "exponent: the rate falls as this power of the remaining share of the run; unset: 0.5"),
      value(KEY(schedule.cooldown_epochs), between(0, 1e6), "10",
            "number of epochs at the end of the run that stay at min_lr"),
      value(KEY(schedule.warmup_prefix),
            "counts the epochs of the schedule from the end of the warmup, not from the start of "
            "the run"),

      value(KEY(train.batch_size), between(1, 1 << 24),
            "number of images per optimizer step, over all processes and micro-batches"),
      value(KEY(train.micro_batch), between(1, 1 << 24), "64",
            "number of images per forward pass of each process, to save memory; it must divide "
            "batch_size; unset: all images at once"),
      choice(KEY(train.precision), {"fp32", "bf16", "tf32"},
             "number format of the forward and backward pass; weights and optimizer stay in "
             "float32; tf32 needs a CUDA device"),
      choice(KEY(train.reduce), {"fp32", "bf16"},
             "number format of the gradients that the processes of a job exchange"),
      choice(KEY(train.loss), {"ce", "bce", "focal"}, "bce",
             "loss function: ce (softmax cross-entropy), bce (binary cross-entropy, which decides "
             "each class separately) or focal (softmax cross-entropy in which an image counts less "
             "the surer the model is); see docs/losses.md"),
      value(KEY(train.label_smoothing), fraction(), "0.1",
            "share of the target that is spread evenly over all classes"),
      class_weights(),
      value(KEY(train.focal_gamma), between(0, 100), "1",
            "focal: exponent of the probability of an error; 0: as ce; unset: 2"),
      value(
          KEY(train.bce_target_threshold), fraction(), "0.2",
          "bce: targets above this value become 1 and the others 0; unset: targets do not change"),
      value(KEY(train.bce_sum),
            "bce: the loss of an image is the sum over its classes instead of their mean"),
      freeze(),
      value(KEY(train.ema), fraction(), "0.9999",
            "decay of the exponential moving average (EMA) of the weights; the average is "
            "evaluated and saved together with the weights; unset: no average"),
      value(KEY(train.ema_warmup),
            "lets the decay of the average grow from 0 to train.ema, for short runs"),
      value(KEY(train.checkpoint_blocks),
            "recomputes each block in the backward pass, which needs less memory and more time"),
      value(KEY(train.step_graph),
            "replays each step as one captured graph, on a CUDA device; use false to debug, and "
            "for padded sequences with bn, in, gn, sn or power"),
      value(KEY(train.log_every), kCount,
            "interval at which the training loss is logged; 0: never"),
      value(KEY(train.log_norms), kCount, "1epoch",
            "interval at which the lambdas of Dynamic Token Normalization are written to "
            "norms.jsonl, for dtn-analyze; the start and the last step are always written, and the "
            "checkpoint of the start is kept; 0: only these two; unset: none"),
      value(KEY(train.log_histograms), kCount, "1epoch",
            "interval at which TensorBoard gets a histogram of every parameter and of its "
            "gradient, each about a kilobyte; unset: never"),
      value(KEY(train.eval_every), kCount,
            "interval at which the validation split is evaluated; 0: only at the end"),
      value(KEY(train.checkpoint_every), kCount,
            "interval at which a checkpoint is written; 0: only at the end"),
      value(KEY(train.keep), between(0, 1e6),
            "number of the newest checkpoints to keep; the last, the best and the newest one with "
            "a finite loss are always kept"),
      value(KEY(train.keep_every), at_least(1), "20epoch",
            "interval at which a checkpoint is written that is never removed, besides those of "
            "train.checkpoint_every and train.keep; unset: none"),
      choice(KEY(train.best), {"raw", "ema"},
             "weights whose top-1 decides which checkpoint is the best: raw (the weights "
             "themselves) or ema (their moving average)"),
      value(KEY(train.early_stop.patience), between(1, 1e6), "5",
            "ends the run after this number of evaluations in a row without a better figure of "
            "train.early_stop.metric; the schedule is then cut off, so leave it unset for a fixed "
            "number of epochs; unset: never"),
      value(KEY(train.early_stop.metric), "loss",
            "figure of an evaluation for train.early_stop.patience; unset: the one that decides "
            "which checkpoint is the best"),

      value(KEY(distill.teacher), "runs/teacher",
            "weights of the teacher, a trained model whose outputs this model learns for the same "
            "images: a run, a checkpoint, a safetensors file, or the name of a public model that "
            "dtn-get has fetched; unset: no teacher"),
      value(KEY(distill.teacher_config), "deit_small",
            "config of the teacher's model, if its file has none"),
      choice(KEY(distill.type), {"hard", "soft"},
             "target from the teacher: hard (its top class) or soft (all its probabilities)"),
      value(KEY(distill.alpha), between(0, 1),
            "share of the loss against the teacher in the total loss; the rest is train.loss"),
      value(KEY(distill.temperature), above(0), "3",
            "soft: logits are divided by this value, and the loss is multiplied by its square"),
      choice(KEY(distill.reduction), {"batch", "elements"},
             "soft: reduction of the divergence over the classes: batch (sum, as in timm) or "
             "elements (mean, as in DeiT's code)"),
  };
}

}  // namespace dtn::config
