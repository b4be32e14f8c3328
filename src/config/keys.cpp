#include "config/keys.h"

#include <array>
#include <tuple>
#include <type_traits>

#include "dtn/config/load.h"

namespace dtn::config {
namespace {

// Names of an enum's values, in their order.
std::span<const std::string> names_of(PosEmbed) {
  static const std::array<std::string, 2> names = {"patch", "all"};
  return names;
}
std::span<const std::string> names_of(Pooling) {
  static const std::array<std::string, 2> names = {"cls", "mean"};
  return names;
}
std::span<const std::string> names_of(DropPathMode) {
  static const std::array<std::string, 2> names = {"linear", "constant"};
  return names;
}
std::span<const std::string> names_of(PosResize) {
  static const std::array<std::string, 2> names = {"bicubic", "bicubic_antialias"};
  return names;
}
std::span<const std::string> names_of(MlpActivation) {
  static const std::array<std::string, 4> names = {"gelu", "gelu_tanh", "quick_gelu", "silu"};
  return names;
}
std::span<const std::string> names_of(Interpolation) {
  static const std::array<std::string, 2> names = {"bilinear", "bicubic"};
  return names;
}
std::span<const std::string> names_of(DecodeMode) {
  static const std::array<std::string, 3> names = {"auto", "exact", "fast"};
  return names;
}
std::span<const std::string> names_of(AugmentPreset) {
  static const std::array<std::string, 5> names = {"none", "light", "deit", "official", "deit3"};
  return names;
}
std::span<const std::string> names_of(ScheduleKind) {
  static const std::array<std::string, 6> names = {"cosine", "constant", "linear",
                                                   "step",   "poly",     "wsd"};
  return names;
}
std::span<const std::string> names_of(SchedulePer) {
  static const std::array<std::string, 2> names = {"epoch", "step"};
  return names;
}
std::span<const std::string> names_of(Precision) {
  static const std::array<std::string, 3> names = {"fp32", "bf16", "tf32"};
  return names;
}
std::span<const std::string> names_of(ReducePrecision) {
  static const std::array<std::string, 2> names = {"fp32", "bf16"};
  return names;
}
std::span<const std::string> names_of(BestBy) {
  static const std::array<std::string, 2> names = {"raw", "ema"};
  return names;
}

template <class E>
E enum_of(const Field& field) {
  return static_cast<E>(read_choice(field, names_of(E{})));
}

// An accessor for a member of the config, const or not.
#define FIELD(member) ([](auto& c) -> auto& { return c.member; })

template <class Access>
Key value(const char* path, Access access, const Range& range, const char* doc) {
  return {path, doc, [=](const Field& f, ExperimentConfig& c) { read_value(f, range, access(c)); },
          [=](const ExperimentConfig& c) { return write_value(access(c)); }};
}

template <class Access>
Key choice(const char* path, Access access, const char* doc) {
  using E = std::remove_reference_t<std::invoke_result_t<Access, ExperimentConfig&>>;
  return {path, doc, [=](const Field& f, ExperimentConfig& c) { access(c) = enum_of<E>(f); },
          [=](const ExperimentConfig& c) {
            return names_of(E{})[static_cast<std::size_t>(access(c))];
          }};
}

template <class First, class Second>
Key pair(const char* path, First first, Second second, const Range& range, const char* doc) {
  return {path, doc,
          [=](const Field& f, ExperimentConfig& c) {
            std::tie(first(c), second(c)) = read_pair(f, range);
          },
          [=](const ExperimentConfig& c) {
            return write_value(std::vector<double>{first(c), second(c)});
          }};
}

Key preset() {
  return {"model.preset", "the model to start from",
          [](const Field& f, ExperimentConfig& c) {
            if (!f.node.is_scalar()) fail(f, "must be the name of a preset, not ", shown(f.node));
            try {
              c.model = model_preset(f.node.text);
            } catch (const ConfigError& e) {
              fail(f.node.where, e.what());
            }
          },
          [](const ExperimentConfig& c) { return write_value(c.model.preset); }};
}

// Read before the keys it gives values to.
Key augmentation() {
  return {"augment.preset", "how training images are varied",
          [](const Field& f, ExperimentConfig& c) {
            c.augment = augment_preset(enum_of<AugmentPreset>(f));
          },
          [](const ExperimentConfig& c) {
            return names_of(c.augment.preset)[static_cast<std::size_t>(c.augment.preset)];
          }};
}

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
            return per ? names_of(*per)[static_cast<std::size_t>(*per)] : "null";
          }};
}

constexpr Range kAny{};
constexpr Range kCount = between(0, 1e12);
constexpr Range kPositiveCount = between(1, 1e12);

std::vector<Key> make_keys() {
  return {
      value("name", FIELD(name), kAny, "names the run folder"),
      value("seed", FIELD(seed), kAny, "of the initial weights, the data order and every mask"),
      value("task", FIELD(task), kAny, "what is learnt"),

      preset(),
      value("model.image_size", FIELD(model.image_size), between(1, 8192), "pixels per side"),
      value("model.patch_size", FIELD(model.patch_size), between(1, 8192), "pixels per side"),
      value("model.channels", FIELD(model.channels), between(1, 1024), "of the image"),
      value("model.num_classes", FIELD(model.num_classes), between(0, 1e6),
            "outputs of the head; 0 for the features it would see"),
      value("model.embed_dim", FIELD(model.embed_dim), between(1, 65536), "channels of a token"),
      value("model.depth", FIELD(model.depth), between(1, 1000), "number of blocks"),
      value("model.num_heads", FIELD(model.num_heads), between(1, 65536), "attention heads"),
      value("model.mlp_ratio", FIELD(model.mlp_ratio), {.low = 0, .high = 64, .low_open = true},
            "hidden width of the MLP relative to embed_dim"),
      choice("model.act", FIELD(model.act), "activation of the MLP"),
      value("model.qkv_bias", FIELD(model.qkv_bias), kAny, "bias of the qkv projection"),
      value("model.qk_norm", FIELD(model.qk_norm), kAny,
            "LayerNorm of each head's queries and keys"),
      value("model.class_token", FIELD(model.class_token), kAny,
            "whether there is a class token; default with pool: cls"),
      value("model.distilled", FIELD(model.distilled), kAny,
            "a second token with a head of its own, as DeiT distils; the logits are averaged"),
      value("model.registers", FIELD(model.registers), between(0, 1024),
            "learned tokens beside the patches, which the head does not see"),
      value("model.class_token_at", FIELD(model.class_token_at), between(0, 1000),
            "the block before which class token and registers join"),
      choice("model.pos_embed", FIELD(model.pos_embed), "which tokens have a position"),
      choice("model.pos_resize", FIELD(model.pos_resize),
             "how positions of weights for another grid are resized"),
      choice("model.pool", FIELD(model.pool), "what the head sees"),
      value("model.patch_bias", FIELD(model.patch_bias), kAny,
            "bias of the patch convolution; default unless norm_pre"),
      value("model.norm_pre", FIELD(model.norm_pre), kAny,
            "LayerNorm of all tokens ahead of the first block"),
      value("model.fc_norm", FIELD(model.fc_norm), kAny,
            "the last LayerNorm comes behind the pooling, as fc_norm"),
      value("model.layer_scale", FIELD(model.layer_scale), kAny,
            "what the gains of the branches' channels start at; null for no gains"),
      value("model.drop_path", FIELD(model.drop_path), fraction(), "rate of the last block"),
      choice("model.drop_path_mode", FIELD(model.drop_path_mode),
             "whether the rate grows from 0 at the first block or is that of every block"),
      value("model.dropout", FIELD(model.dropout), fraction(), "dropout rate"),
      value("model.eps", FIELD(model.eps), above(0), "added to variances"),
      value("model.mhsa_position", FIELD(model.mhsa_position), kAny,
            "relative positions in the attention, before the class token joins"),
      value("model.init_weights", FIELD(model.init_weights), kAny,
            "a safetensors file to start from"),
      value("model.norm.type", FIELD(model.norm.type), kAny, "the normalizer"),
      value("model.norm.layers", FIELD(model.norm.layers), between(0, 1000),
            "the first blocks, which use the normalizer; default class_token_at, or depth"),
      value("model.norm.eps", FIELD(model.norm.eps), above(0), "default model.eps"),

      value("data.dataset", FIELD(data.dataset), kAny, "the kind of data set"),
      value("data.root", FIELD(data.root), kAny, "folder of the data set"),
      value("data.train", FIELD(data.train), kAny, "folder, file or prefix of the training split"),
      value("data.val", FIELD(data.val), kAny, "folder, file or prefix of the validation split"),
      value("data.shuffle", FIELD(data.shuffle), kAny, "shuffle the training images every epoch"),
      value("data.workers", FIELD(data.workers), between(0, 1024),
            "decoding threads; default 2 on the CPU, nearly one per core for a GPU"),
      value("data.mean", FIELD(data.mean), kAny, "per channel, of values in [0, 1]"),
      value("data.std", FIELD(data.std), above(0), "per channel, of values in [0, 1]"),
      value("data.crop_pct", FIELD(data.crop_pct), positive_fraction(),
            "side of the evaluation crop relative to the resized image"),
      choice("data.interpolation", FIELD(data.interpolation), "how images are resized"),
      choice("data.decode", FIELD(data.decode), "of JPEGs; auto: fast to train, exact to evaluate"),
      value("data.repeats", FIELD(data.repeats), between(1, 1e6), "times an epoch sees an image"),
      value("data.size", FIELD(data.size), between(1, 1e9), "number of synthetic images"),
      value("data.max_bad_images", FIELD(data.max_bad_images), kCount,
            "damaged images skipped before it is an error"),

      augmentation(),
      pair("augment.scale", FIELD(augment.scale_min), FIELD(augment.scale_max), positive_fraction(),
           "least and largest area of the crop, relative to the image"),
      pair("augment.ratio", FIELD(augment.ratio_min), FIELD(augment.ratio_max), above(0),
           "least and largest width over height of the crop"),
      value("augment.hflip", FIELD(augment.hflip), between(0, 1), "chance of a horizontal flip"),
      value("augment.policy", FIELD(augment.policy), kAny,
            "RandAugment such as rand-m9-mstd0.5-inc1, three, or none"),
      value("augment.color_jitter", FIELD(augment.color_jitter), between(0, 1),
            "how much brightness, contrast and saturation vary"),
      value("augment.erase", FIELD(augment.erase), between(0, 1), "chance of random erasing"),
      value("augment.mixup", FIELD(augment.mixup), between(0, 1000),
            "parameter of the Beta distribution; 0 for never"),
      value("augment.cutmix", FIELD(augment.cutmix), between(0, 1000),
            "parameter of the Beta distribution; 0 for never"),
      value("augment.mix_chance", FIELD(augment.mix_chance), between(0, 1),
            "that a batch is mixed"),
      value("augment.mix_switch", FIELD(augment.mix_switch), between(0, 1),
            "chance of cutmix in place of mixup"),
      value("augment.mix_off_epoch", FIELD(augment.mix_off_epoch), kPositiveCount,
            "the epoch, counted from 0, from which on no batch is mixed; default never"),
      value("augment.repeats", FIELD(augment.repeats), between(1, 1000),
            "times a drawn image is used in a row"),

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
#undef FIELD

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

}  // namespace dtn::config
