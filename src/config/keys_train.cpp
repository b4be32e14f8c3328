// Keys of the optimizer, the schedule, the run and its teacher.
#include "config/key_rows.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<ScheduleKind>() {
  static const std::array<std::string, 7> names = {"cosine", "constant", "linear", "step",
                                                   "poly",   "wsd",      "rsqrt"};
  return names;
}
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
          "factors on the rate of the weights whose names match a pattern; the last that matches "
          "counts",
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
          "what keeps its weights: nothing; the backbone, which is all but the head, run as in an "
          "evaluation; or parameters by patterns of their names",
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
      value("optim.name", FIELD(optim.name), kAny, "the optimizer, see docs/optimizers.md"),
      value("optim.lr", FIELD(optim.lr), above(0),
            "learning rate at the top of the schedule, before lr_scale_batch"),
      value("optim.lr_scale_batch", FIELD(optim.lr_scale_batch), above(0),
            "a batch size N that optim.lr is meant for: the rate is lr x batch_size / N; unset: lr "
            "as it is",
            "512"),
      value("optim.weight_decay", FIELD(optim.weight_decay), at_least(0),
            "decay of weights of two and more dimensions; see optim.decay"),
      choice(
          "optim.decay", FIELD(optim.decay),
          "what weight_decay is for: weights of two and more dimensions, or biases, norms, tokens "
          "and positions as well"),
      pair("optim.betas", FIELD(optim.beta1), FIELD(optim.beta2), fraction(),
           "how much of the averages of the gradient and of its square a step keeps"),
      value("optim.eps", FIELD(optim.eps), above(0),
            "added to the root of the average squared gradient"),
      value("optim.momentum", FIELD(optim.momentum), fraction(),
            "how much of the velocity a step keeps"),
      value(
          "optim.nesterov", FIELD(optim.nesterov), kAny,
          "Nesterov's momentum: the step looks one step ahead; unset: false for sgd, true for muon",
          "true"),
      choice(
          "optim.ns_coefficients", FIELD(optim.ns_coefficients),
          "coefficients of the five polynomials that orthogonalise a momentum: original takes one "
          "steep polynomial each time, quintic one made for each time; unset: original",
          "quintic"),
      choice(
          "optim.muon_scale", FIELD(optim.muon_scale),
          "what orthogonal steps are scaled by: match_rms_adamw, to the size of AdamW's, so that "
          "its rate and decay carry over, or original, by the shape of the matrix; unset: "
          "match_rms_adamw",
          "original"),
      value("optim.clip_grad_norm", FIELD(optim.clip_grad_norm), above(0),
            "a gradient whose norm over all weights is larger is scaled down to this norm; unset: "
            "none is",
            "1"),
      value(
          "optim.clip_adaptive", FIELD(optim.clip_adaptive), above(0),
          "adaptive clipping: the gradient of each output's weights whose norm is above this share "
          "of theirs is scaled down to it; unset: none is",
          "0.01"),
      value("optim.clip_adaptive_head", FIELD(optim.clip_adaptive_head), kAny,
            "whether clip_adaptive is for the head, too, as in LeViT's recipe"),
      value("optim.layer_decay", FIELD(optim.layer_decay), positive_fraction(),
            "factor on the rate from each layer to the one before it, so that the first ones learn "
            "slowest; unset: one rate for all",
            "0.75"),
      value("optim.lambda_lr_scale", FIELD(optim.lambda_lr_scale), at_least(0),
            "factor on the rate of DTN's lambdas, the weights named *_norm_weight", "10"),
      rate_multiples(),

      choice("schedule.name", FIELD(schedule.name),
             "how the learning rate falls behind the warmup, see docs/schedules.md"),
      value("schedule.epochs", FIELD(schedule.epochs), kPositiveCount,
            "length of the run in epochs, warmup and cooldown included; 300 where steps is not set "
            "either"),
      value("schedule.steps", FIELD(schedule.steps), kPositiveCount,
            "length of the run in optimizer steps, in place of schedule.epochs", "10000"),
      value("schedule.warmup_epochs", FIELD(schedule.warmup_epochs), between(0, 1e6),
            "epochs at the start in which the rate rises in a straight line", "5"),
      value("schedule.warmup_steps", FIELD(schedule.warmup_steps), kPositiveCount,
            "rsqrt: steps at the start in which the rate rises in a straight line", "1000"),
      value("schedule.warmup_lr", FIELD(schedule.warmup_lr), at_least(0),
            "rate that the warmup starts from; not scaled by the batch"),
      value("schedule.min_lr", FIELD(schedule.min_lr), at_least(0),
            "rate that the schedule ends at; not scaled by the batch"),
      choice("schedule.per", FIELD(schedule.per),
             "when the rate changes; unset: every epoch, or every step where schedule.steps is set",
             "step"),
      value("schedule.milestones", FIELD(schedule.milestones), above(0),
            "the epochs at which the rate drops, ascending", "[30, 60, 80]"),
      value("schedule.decay_epochs", FIELD(schedule.decay_epochs), above(0),
            "epochs from one drop to the next, in place of milestones; of wsd the epochs of the "
            "way down at the end",
            "30"),
      value("schedule.gamma", FIELD(schedule.gamma), positive_fraction(),
            "what each drop multiplies the rate by; unset: 0.1", "0.2"),
      value("schedule.power", FIELD(schedule.power), {.low = 0, .high = 100, .low_open = true},
            "the rate falls as this power of what is left of the run; unset: 0.5", "1"),
      value("schedule.cooldown_epochs", FIELD(schedule.cooldown_epochs), between(0, 1e6),
            "the last epochs of the run, which stay at min_lr", "10"),
      value(
          "schedule.warmup_prefix", FIELD(schedule.warmup_prefix), kAny,
          "epochs of the schedule count from the end of the warmup, not from the start of the run"),

      value("train.batch_size", FIELD(train.batch_size), between(1, 1 << 24),
            "images per optimizer step, over all processes and micro batches"),
      value("train.micro_batch", FIELD(train.micro_batch), between(1, 1 << 24),
            "images per forward pass of each process, to save memory; it divides batch_size; "
            "unset: all at once",
            "64"),
      choice("train.precision", FIELD(train.precision),
             "number format of the forward and backward pass; weights and optimizer stay in "
             "float32, tf32 is for CUDA devices"),
      choice("train.reduce", FIELD(train.reduce),
             "number format in which gradients travel between the processes of a job"),
      choice("train.loss", FIELD(train.loss),
             "what is minimised: ce is softmax cross-entropy, bce binary cross-entropy, for which "
             "each class is a question of its own; see docs/losses.md",
             "bce"),
      value("train.label_smoothing", FIELD(train.label_smoothing), fraction(),
            "share of the target that is spread evenly over all classes", "0.1"),
      value("train.bce_target_threshold", FIELD(train.bce_target_threshold), fraction(),
            "of bce, targets above this become 1 and the others 0; unset: they stay as they are",
            "0.2"),
      value("train.bce_sum", FIELD(train.bce_sum), kAny,
            "of bce, the loss of an image is the sum over its classes in place of their mean"),
      freeze(),
      value("train.ema", FIELD(train.ema), fraction(),
            "decay of the moving average of the weights, which is evaluated and saved beside them; "
            "unset: no average",
            "0.9999"),
      value("train.ema_warmup", FIELD(train.ema_warmup), kAny,
            "let the decay of the average grow from 0 to train.ema, for short runs"),
      value("train.checkpoint_blocks", FIELD(train.checkpoint_blocks), kAny,
            "recompute each block in the backward pass: less memory for more time"),
      value("train.step_graph", FIELD(train.step_graph), kAny,
            "on a CUDA device, replay each step as one captured graph; false to debug, and for "
            "padded "
            "sequences with bn, in, gn, sn or power"),
      value("train.log_every", FIELD(train.log_every), kCount,
            "how often the training loss is logged; 0: never"),
      value("train.log_norms", FIELD(train.log_norms), kCount,
            "how often the lambdas of Dynamic Token Normalization are written to norms.jsonl, for "
            "dtn-analyze, beside those of the first and the last step, and the first step's "
            "checkpoint is kept; 0: only those two; unset: none",
            "1epoch"),
      value(
          "train.log_histograms", FIELD(train.log_histograms), kCount,
          "how often TensorBoard gets a histogram of every parameter and of its gradient; each is "
          "about a kilobyte; unset: never",
          "1epoch"),
      value("train.eval_every", FIELD(train.eval_every), kCount,
            "how often the validation split is evaluated; 0: at the end only"),
      value("train.checkpoint_every", FIELD(train.checkpoint_every), kCount,
            "how often a checkpoint is written; 0: at the end only"),
      value("train.keep", FIELD(train.keep), between(0, 1e6),
            "how many of the newest checkpoints are kept; the last, the best and the newest one "
            "with a finite loss always are"),
      choice("train.best", FIELD(train.best),
             "whose top-1 decides which checkpoint is the best: the weights as they are, or their "
             "moving average"),

      value("distill.teacher", FIELD(distill.teacher), kAny,
            "weights of a trained model that this one learns to agree with on the same images: a "
            "run, "
            "a checkpoint or a safetensors file; unset: no teacher",
            "runs/teacher"),
      value("distill.teacher_config", FIELD(distill.teacher_config), kAny,
            "config of the teacher's model, where its file carries none", "deit_small"),
      choice("distill.type", FIELD(distill.type),
             "what is learnt of the teacher: hard, the class that it puts first, or soft, all its "
             "probabilities"),
      value("distill.alpha", FIELD(distill.alpha), between(0, 1),
            "share of the loss that is against the teacher; the rest is train.loss"),
      value("distill.temperature", FIELD(distill.temperature), above(0),
            "of soft distillation, logits are divided by it, and the loss multiplied by its square",
            "3"),
      choice(
          "distill.reduction", FIELD(distill.reduction),
          "of soft distillation, the divergence is summed over the classes (batch, as in timm) or "
          "their mean (elements, as in DeiT's code)"),
  };
}

}  // namespace dtn::config
