// The keys of the optimizer, the schedule and the run.
#include "config/key_rows.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<ScheduleKind>() {
  static const std::array<std::string, 6> names = {"cosine", "constant", "linear",
                                                   "step",   "poly",     "wsd"};
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

namespace {

// "pattern=factor"
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
          "factors on the rate by parameter name, [\"pattern=factor\", ...]; the last match counts",
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
          }};
}

Key schedule_per() {
  return {"schedule.per", "when the rate changes; default epoch, or step with schedule.steps",
          [](const Field& f, ExperimentConfig& c) { c.schedule.per = enum_of<SchedulePer>(f); },
          [](const ExperimentConfig& c) -> std::string {
            const auto& per = c.schedule.per;
            return per ? names_of<SchedulePer>()[static_cast<std::size_t>(*per)] : "null";
          }};
}

}  // namespace

std::vector<Key> train_keys() {
  return {
      value("optim.name", FIELD(optim.name), kAny, "the optimizer"),
      value("optim.lr", FIELD(optim.lr), above(0), "learning rate"),
      value("optim.lr_scale_batch", FIELD(optim.lr_scale_batch), above(0),
            "N: the rate is lr x batch_size / N"),
      value("optim.weight_decay", FIELD(optim.weight_decay), at_least(0), "weight decay"),
      pair("optim.betas", FIELD(optim.beta1), FIELD(optim.beta2), fraction(),
           "of adamw, lamb and lion; default 0.9 0.999, of lion 0.9 0.99"),
      value("optim.eps", FIELD(optim.eps), above(0),
            "of adamw and lamb; default 1e-8, of lamb 1e-6"),
      value("optim.momentum", FIELD(optim.momentum), fraction(), "of sgd"),
      value("optim.nesterov", FIELD(optim.nesterov), kAny,
            "Nesterov's momentum; default false for sgd"),
      value("optim.clip_grad_norm", FIELD(optim.clip_grad_norm), above(0),
            "largest norm of the whole gradient; default none, of lamb 1"),
      value("optim.layer_decay", FIELD(optim.layer_decay), positive_fraction(),
            "factor on the rate from each layer to the one before it"),
      value("optim.lambda_lr_scale", FIELD(optim.lambda_lr_scale), at_least(0),
            "factor on the rate of DTN's lambdas, *_norm_weight"),
      rate_multiples(),

      choice("schedule.name", FIELD(schedule.name), "shape of the learning rate"),
      value("schedule.epochs", FIELD(schedule.epochs), kPositiveCount, "length of the run"),
      value("schedule.steps", FIELD(schedule.steps), kPositiveCount, "length of the run"),
      value("schedule.warmup_epochs", FIELD(schedule.warmup_epochs), between(0, 1e6),
            "epochs of linear warmup"),
      value("schedule.warmup_lr", FIELD(schedule.warmup_lr), at_least(0),
            "rate at the start, not scaled by the batch"),
      value("schedule.min_lr", FIELD(schedule.min_lr), at_least(0),
            "rate at the end, not scaled by the batch"),
      schedule_per(),
      value("schedule.milestones", FIELD(schedule.milestones), above(0),
            "step: the epochs at which the rate drops"),
      value("schedule.decay_epochs", FIELD(schedule.decay_epochs), above(0),
            "step: epochs from drop to drop; wsd: of the way down"),
      value("schedule.gamma", FIELD(schedule.gamma), positive_fraction(),
            "step: what a drop multiplies the rate by; default 0.1"),
      value("schedule.power", FIELD(schedule.power), {.low = 0, .high = 100, .low_open = true},
            "poly: of what is left of the run; default 0.5"),
      value("schedule.cooldown_epochs", FIELD(schedule.cooldown_epochs), between(0, 1e6),
            "the last epochs of the run, at min_lr"),
      value("schedule.warmup_prefix", FIELD(schedule.warmup_prefix), kAny,
            "epochs of the schedule count from the end of the warmup"),

      value("train.batch_size", FIELD(train.batch_size), between(1, 1 << 24),
            "images per optimizer step"),
      value("train.micro_batch", FIELD(train.micro_batch), between(1, 1 << 24),
            "images per forward pass (of each process, in a job of several); a divisor of "
            "batch_size"),
      choice("train.precision", FIELD(train.precision), "of the forward and backward pass"),
      choice("train.reduce", FIELD(train.reduce),
             "in which gradients travel between the processes of a job"),
      value("train.label_smoothing", FIELD(train.label_smoothing), fraction(), "label smoothing"),
      value("train.ema", FIELD(train.ema), fraction(), "decay of the average of the weights"),
      value("train.ema_warmup", FIELD(train.ema_warmup), kAny,
            "let the decay of the average grow from 0 to train.ema"),
      value("train.checkpoint_blocks", FIELD(train.checkpoint_blocks), kAny,
            "recompute blocks in the backward pass to save memory"),
      value("train.step_graph", FIELD(train.step_graph), kAny,
            "on a CUDA device, replay each step as one captured graph; off to debug"),
      value("train.log_every", FIELD(train.log_every), kCount, "0 for never"),
      value("train.eval_every", FIELD(train.eval_every), kCount, "0 for the end only"),
      value("train.checkpoint_every", FIELD(train.checkpoint_every), kCount, "0 for the end only"),
      value("train.keep", FIELD(train.keep), between(0, 1e6), "step checkpoints kept"),
      choice("train.best", FIELD(train.best), "which weights decide the best checkpoint"),
  };
}

}  // namespace dtn::config
