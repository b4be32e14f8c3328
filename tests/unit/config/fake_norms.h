// Fake registries for tests of the config loader, which must not depend on the real ones. The
// presets are real.
#pragma once

#include <string>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"
#include "dtn/core/check.h"
#include "dtn/models/backbone.h"
#include "dtn/models/presets.h"

namespace dtn::testing {

inline std::vector<NormSchema> fake_norms() {
  NormSchema ln{.type = "ln", .doc = "LayerNorm", .options = {}, .needs_grid = false};
  NormSchema gn{.type = "gn", .doc = "GroupNorm", .options = {}, .needs_grid = false};
  gn.options = {
      {"groups", OptionKind::kInt, std::int64_t{4}, {}, 1, 64, "channel groups"},
      flag_option("sync", "over all processes"),
      share_option("decay", 0.9, "of the averages"),
  };
  NormSchema dtn{
      .type = "dtn", .doc = "Dynamic Token Normalization", .options = {}, .needs_grid = true};
  dtn.options = {
      choice_option("variant", {"paper", "official"}, "flavour"),
      choice_or_number_option("lambda", "learnable", 0, 1, "mix"),
      choice_option("position", {"relative", "banded:<k>"}, "P"),
      choice_option("init", {"local", "trunc_normal"}, "of P"),
      choice_option("prefix", {"none", "ln"}, "ahead of P"),
  };
  NormSchema ada{.type = "ada", .doc = "from a condition", .options = {}};
  ada.needs = "a condition, which a model does not have; see ada.h";
  return {ln, gn, dtn, ada};
}

inline std::vector<DatasetSchema> fake_datasets() {
  const std::vector<std::string> pixels = {"mean", "std"};
  const std::vector<std::string> files = {"train", "val", "mean", "std"};
  return {{"imagefolder", "folders", files},
          {"idx", "two files", files},
          {"tensors", "as they are", {"train", "val"}},
          {"cifar10", "small images", pixels},
          {"cifar100", "more of them", pixels},
          {"synthetic", "made up", {"mean", "std", "size"}}};
}

// One policy checks the text after its name.
inline std::vector<PolicySchema> fake_policies() {
  const auto check = [](const std::string& policy) -> std::optional<std::string> {
    if (policy.find("m99") == std::string::npos) return {};
    return "m99 is too much";
  };
  return {{"none", "nothing", {}}, {"three", "one of three", {}}, {"rand", "some of many", check}};
}

// Two optimizers have their own defaults, and some do not read `momentum` or `nesterov`.
inline std::vector<OptimizerSchema> fake_optimizers() {
  OptimizerSchema lion{"lion", "signs", {"betas", "nesterov"}};
  lion.defaults = [](OptimConfig& config) {
    config.beta2 = 0.99;
    config.momentum.reset();
  };
  OptimizerSchema lamb{"lamb", "ratios", {"betas"}};
  lamb.defaults = [](OptimConfig& config) { config.clip_grad_norm = 1; };
  return {{"adamw", "usual", {"betas", "momentum"}},
          {"sgd", "plain", {"betas", "momentum", "nesterov"}},
          lion,
          lamb};
}

inline std::vector<ScheduleSchema> fake_schedules() {
  const std::vector<std::string> both = {"min_lr", "warmup_epochs"};
  ScheduleSchema drops{"drops", "in steps", {"min_lr", "warmup_epochs", "decay_epochs", "gamma"}};
  drops.check = [](const ScheduleConfig& s, double peak) -> std::optional<ConfigProblem> {
    if (s.min_lr <= peak) return {};
    return ConfigProblem{{"schedule.min_lr"}, cat("schedule.min_lr is above ", peak)};
  };
  ScheduleSchema late{"late", "falls at the end", {"warmup_epochs", "decay_epochs"}};
  late.min_epochs = [](const ScheduleConfig& s) { return s.decay_epochs.value_or(0); };
  return {{"cosine", "usual", both}, {"constant", "flat", both}, drops, late};
}

// One family, which reads all keys and checks one combination.
inline std::vector<ModelSchema> fake_models() {
  ModelSchema vit{"vit", "one stage"};
  vit.check = [](const ModelConfig& c, const NormSchema&) -> std::optional<ConfigProblem> {
    if (c.embed_dim % c.num_heads == 0) return {};
    return ConfigProblem{
        {"model.num_heads", "model.embed_dim"},
        cat("model.embed_dim ", c.embed_dim, " is not divisible by model.num_heads ", c.num_heads)};
  };
  vit.unsupported = model_registry().at("vit").schema.unsupported;
  return {vit};
}

inline ConfigSchemas fake_schemas() {
  return {fake_norms(),
          fake_datasets(),
          fake_policies(),
          fake_optimizers(),
          fake_schedules(),
          {{"classify",
            "classes",
            {{"top1", "top-1", true, true},
             {"top5", "top-5", true, true},
             {"loss", "loss", false, false}},
            {"distill"}},
           {"regress", "numbers", {{"error", "error", false, false}}},
           {"dream", "nobody knows what", {}}},
          fake_models(),
          {preset_registry().begin(), preset_registry().end()}};
}

}  // namespace dtn::testing
