#include "dtn/app/info_main.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "apps/common/complete.h"
#include "apps/common/program.h"
#include "config/document.h"
#include "config/key_docs.h"
#include "config/presets.h"
#include "core/progress.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/models/classifier.h"
#include "dtn/models/complexity.h"
#include "dtn/nn/normalizer.h"
#include "tasks/backbone_cost.h"

namespace dtn::app {
namespace {

std::string norm_text(const ModelConfig& m) {
  if (m.decoder_norm && m.decoder_norm->type != m.norm.type) {
    return cat(m.norm.type, ", ", m.decoder_norm->type, " in the decoder");
  }
  if (m.family != "vit" || m.norm.type == "ln") return m.norm.type;
  return cat(m.norm.type, " in blocks [0, ", m.norm_layers(), "), ln after");
}

bool reads(const ModelSchema& family, const char* key) {
  return std::ranges::find(family.reads, key) != family.reads.end();
}

// Describes the sizes of the model and its input, as far as its family has them.
std::string sizes_text(const ModelConfig& m, const DataConfig& data, const ModelSchema& family) {
  std::string text = cat(m.embed_dim, " channels");
  if (reads(family, "num_heads")) text += cat(", ", m.num_heads, " heads");
  text += cat(", depth ", m.depth);
  if (m.max_length > 0) return cat(text, ", up to ", m.max_length, " tokens");
  if (reads(family, "patch_size")) text += cat(", patch ", m.patch_size);
  if (m.detector.kind) {
    return cat(text, ", image up to ", data.scale_short, " x ", data.scale_long);
  }
  return cat(text, ", image ", m.image_size);
}

// A detector costs more than its backbone, and a model of features less than a classifier.
Complexity cost_of(const ExperimentConfig& config, const Registries& registries) {
  const ModelConfig& m = config.model;
  if (m.detector.kind) return make_task({config, kMeta, registries})->cost();
  if (registries.tasks.at(config.task).schema.features_only) {
    return backbone_cost(m, m.image_size, registries);
  }
  return complexity_of(m, registries.models, registries.norms);
}

void print_model(const std::string& name, const std::vector<std::string>& overrides,
                 const Registries& registries) {
  const ConfigSchemas schemas = registries.schemas();
  const ExperimentConfig config = load_experiment(find_config(name, schemas), overrides, schemas);
  const ModelConfig& m = config.model;
  const Complexity c = cost_of(config, registries);
  const char* sample = m.max_length > 0 ? "sequence" : "image";
  std::printf("model            %s\n",
              cat(m.preset, ": ", sizes_text(m, config.data, registries.models.at(m.family).schema))
                  .c_str());
  std::printf("normalizer       %s\n", norm_text(m).c_str());
  const bool headless = registries.tasks.at(config.task).schema.features_only;
  std::printf("parameters       %lld%s\n", static_cast<long long>(c.parameters),
              headless ? "  (without a head)" : "");
  const bool separable = c.paper_multiply_adds != c.multiply_adds;
  std::printf("multiply-adds    %.4f G per %s, as the paper counts%s\n",
              c.paper_multiply_adds / 1e9, sample, separable ? " (dense P)" : "");
  std::printf("                 %.4f G per %s, as carried out%s\n", c.multiply_adds / 1e9, sample,
              separable ? " (separable P)" : "");
  const bool whole = c.computed_multiply_adds == c.multiply_adds;
  std::printf("                 %.4f G per %s, as computed%s\n", c.computed_multiply_adds / 1e9,
              sample, whole ? "" : ": without values that nothing reads");
  std::printf("activations      %.1f MiB per %s in float32, %.1f MiB in bfloat16\n",
              c.activation_bytes_fp32 / 1048576, sample, c.activation_bytes_bf16 / 1048576);
}

// Returns what a config must have to choose the normalizer; empty: nothing.
std::string requirement_of(const NormSchema& norm, const Registries& registries) {
  if (norm.needs_grid) return " (needs the token grid: blocks before the class token)";
  if (norm.needs.empty()) return norm.reads_condition ? " (needs model.condition.from)" : "";
  std::vector<std::string> families;
  for (const ModelSchema& model : registries.models.schemas()) {
    const bool meets = std::ranges::find(model.meets, norm.type) != model.meets.end();
    if (meets) families.push_back(model.family);
  }
  if (families.empty()) return " (for C++ programs, not for configs)";
  return cat(" (for models of the family ", config::join(families, ", "), ": it needs ", norm.needs,
             ")");
}

void print_norms(const Registries& registries) {
  for (const NormSchema& schema : registries.norms.schemas()) {
    std::printf("%s\n    %s%s\n", schema.type.c_str(), schema.doc.c_str(),
                requirement_of(schema, registries).c_str());
    for (const OptionSchema& o : schema.options) {
      std::string allowed = config::join(o.choices, "|");
      if (o.kind == OptionKind::kNumber || o.kind == OptionKind::kInt ||
          o.kind == OptionKind::kChoiceOrNumber) {
        allowed += cat(allowed.empty() ? "" : "|", o.min, "..", o.max);
      }
      if (o.kind == OptionKind::kBool) allowed = "true|false";
      std::printf("    %-10s %-28s default %-12s %s\n", o.key.c_str(), allowed.c_str(),
                  (o.per_stage ? "the model's" : to_string(o.default_value)).c_str(),
                  o.doc.c_str());
    }
  }
}

void print_datasets(const DatasetRegistry& datasets) {
  for (const DatasetSchema& schema : datasets.schemas()) {
    std::string keys;
    for (const std::string& key : schema.reads) keys += " data." + key;
    std::printf("%-12s %-42s with%s\n", schema.name.c_str(), schema.doc.c_str(), keys.c_str());
  }
}

void print_tasks(const TaskRegistry& tasks) {
  for (const TaskSchema& schema : tasks.schemas()) {
    std::printf("%-12s %s; figures: %s\n", schema.name.c_str(), schema.doc.c_str(),
                config::join(schema.figures, ", ", &FigureSchema::name).c_str());
  }
}

// Prints name and doc of each entry, for registries without further details.
template <class Rows>
void print_rows(const Rows& rows) {
  for (const auto& schema : rows.schemas()) {
    std::printf("%-12s %s\n", schema.name.c_str(), schema.doc.c_str());
  }
}

void print_presets(const Registries& registries) {
  std::printf("%-12s %-8s %-20s %-12s %-11s %6s\n", "preset", "family", "C", "heads", "depth",
              "patch");
  for (const PresetSchema& preset : registries.presets) {
    if (!preset.releases.empty()) continue;
    const ModelConfig& m = preset.model;
    const ModelSchema& family = registries.models.at(m.family).schema;
    const auto shown = [&](const char* key, const std::string& value) {
      return reads(family, key) ? value : "-";
    };
    std::printf("%-12s %-8s %-20s %-12s %-11s %6s\n", m.preset.c_str(), m.family.c_str(),
                cat(m.embed_dim).c_str(), shown("num_heads", cat(m.num_heads)).c_str(),
                cat(m.depth).c_str(), shown("patch_size", cat(m.patch_size)).c_str());
  }
}

double millions_of_parameters(ModelConfig c, int num_classes, const Registries& registries) {
  c.num_classes = num_classes;
  const Classifier built(c, 0, DType::kFloat32, kMeta, registries.models, registries.norms);
  return static_cast<double>(built.parameters().count()) / 1e6;
}

void print_public_models(const Registries& registries) {
  std::printf("%-58s %9s %6s %6s %6s %6s %8s %6s\n", "model", "params/M", "image", "patch", "C",
              "depth", "classes", "crop");
  for (const PresetSchema& preset : registries.presets) {
    const ModelConfig& m = preset.model;
    for (const ReleaseSchema& release : preset.releases) {
      std::printf("%-58s %9.1f %6d %6d %6d %6d %8d %6g\n",
                  config::PublicModel{&preset, &release}.name().c_str(),
                  millions_of_parameters(m, release.num_classes, registries), m.image_size.height,
                  m.patch_size, static_cast<int>(m.embed_dim), m.blocks(), release.num_classes,
                  release.crop_pct);
    }
  }
}

// Prints the name of each config and the first line of its comment.
void print_configs(const ConfigSchemas& schemas) {
  for (const std::string& name : shipped_configs()) {
    std::ifstream file(find_config(name, schemas));
    std::string line;
    std::getline(file, line);
    const std::size_t text = line.starts_with("#") ? line.find_first_not_of("# ") : line.npos;
    std::printf("%-40s %s\n", name.c_str(), text == line.npos ? "" : line.c_str() + text);
  }
}

void print_ops() {
  std::printf(
      "linear            y = x W^T + b\n"
      "linear_gelu       y = gelu(x W^T + b), exact gelu\n"
      "linear_residual   y = residual + drop-path scale (x W^T + b)\n"
      "mlp_residual      y = residual + drop-path scale (gelu(x W1^T + b1) W2^T + b2)\n"
      "attention         softmax(q k^T / sqrt(D)) v, blockwise\n"
      "attention_on_grid the same with the bias a_d (dx^2 + dy^2) + a_x dx + a_y dy of each head\n"
      "layer_norm        over the last dimension, adds the waiting residual gradient\n"
      "l2_normalize      rows divided by their length\n"
      "channel_norm      over tokens, by channel, group or batch: in, gn, bn\n"
      "dtn               dynamic token normalization, separable\n"
      "modulated_layer_norm, standardize_tokens, channel_moments, scale_shift_tokens, modulate,\n"
      "modulate_samples, gated_add, gated_modulated_layer_norm\n"
      "                  gains and shifts from a condition, moments with gradients\n"
      "neighbours, take_rows, mix_rows, join_columns, relu, silu, tanh,\n"
      "gelu_tanh, quick_gelu, hardswish\n"
      "patch_embed, image_tokens   images to tokens\n"
      "convolution, max_pool, avg_pool, soft_split, every_nth, upsample_join\n"
      "                  of the tokens of a grid\n"
      "add_positions, prepend_tokens, first_token, mean_token\n"
      "dropout, residual_add, gelu, cast\n"
      "cross_entropy     labels with smoothing, or soft targets; weighted_cross_entropy has class\n"
      "                  weights and the focal factor\n"
      "contrastive       supervised contrastive loss of rows, among all rows of the global batch\n"
      "self_distillation DINO: all pairs of views, with a weight-normalised last layer\n"
      "pixel_loss        L1, L2 and Charbonnier loss of images\n"
      "primitive         add sub mul div maximum minimum where affine neg exp log sqrt erf "
      "sigmoid\n"
      "                  tanh relu abs cos sin power sum mean max softmax reshape permute\n"
      "                  broadcast_to concat narrow pad gather matmul conv2d max_pool2d "
      "avg_pool2d\n"
      "                  (on every device, in every floating type; references are made of them)\n");
}

// Returns the keys that begin with `prefix`, or else the keys that contain it.
std::vector<config::KeyDoc> keys_like(const std::string& prefix, const ConfigSchemas& schemas) {
  const std::vector<config::KeyDoc> all = config::key_docs(schemas);
  std::vector<config::KeyDoc> begin, contain;
  for (const config::KeyDoc& doc : all) {
    if (doc.path.starts_with(prefix)) begin.push_back(doc);
    if (doc.path.find(prefix) != std::string::npos) contain.push_back(doc);
  }
  if (!begin.empty()) return begin;
  if (!contain.empty()) return contain;
  std::vector<std::string> paths;
  for (const config::KeyDoc& doc : all) paths.push_back(doc.path);
  const std::set<std::string> known(paths.begin(), paths.end());
  const std::vector<std::string> meant = config::paths_meant_by(prefix, known);
  throw ConfigError(cat("--keys: no key contains '", config::shown(prefix), "'",
                        meant.empty() ? config::did_you_mean(prefix, paths)
                                      : cat("; did you mean '", meant.front(), "'?")));
}

void print_keys(const std::string& prefix, bool markdown, const ConfigSchemas& schemas) {
  const std::vector<config::KeyDoc> docs = keys_like(prefix, schemas);
  const std::string text =
      markdown ? config::to_markdown(docs) : config::to_text(docs, output_columns());
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int info_main(int argc, char** argv, const Registries& registries) {
  CLI::App app{"Describes a model, or lists config keys, models, normalizers, data sets and more.",
               "dtn-info"};
  std::string config;
  std::vector<std::string> overrides;
  bool norms = false, ops = false, presets = false, datasets = false, configs = false;
  bool tasks = false, optimizers = false, schedules = false, policies = false, models = false;
  bool markdown = false;
  std::string prefix;
  app.add_option("--config,config", config,
                 "print parameters, multiply-adds and activation memory of this config, public "
                 "model (by name) or folder of a Hugging Face hub model");
  add_overrides(app, overrides, "override one key (repeatable)");
  auto* keys = app.add_option("--keys", prefix,
                              "list the config keys that begin with PREFIX, such as optim, or all: "
                              "the meaning, allowed values, default and an example of each")
                   ->type_name("[PREFIX]")
                   ->expected(0, 1);
  app.add_flag("--markdown", markdown, "print --keys as Markdown; docs/config.md is this output")
      ->needs(keys);
  std::string shell;
  app.add_option(
         "--completion", shell,
         "print the completion script of a shell, for the options, config names, keys and values "
         "of all programs; in ~/.bashrc, for example: source <(dtn-info --completion bash)")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_flag("--norms", norms, "list the normalizers and their options");
  app.add_flag("--ops", ops, "list the differentiable operations");
  app.add_flag("--datasets", datasets, "list the kinds of data sets and their keys");
  app.add_flag("--presets", presets, "list the model presets");
  app.add_flag("--configs", configs, "list the configs that --config takes by name");
  app.add_flag("--models", models, "list the public models that --config takes by name");
  app.add_flag("--tasks", tasks, "list the tasks and the metrics of their evaluations");
  app.add_flag("--optimizers", optimizers, "list the optimizers");
  app.add_flag("--schedules", schedules, "list the learning-rate schedules");
  app.add_flag("--policies", policies, "list the augmentation policies");
  return run_program(app, argc, argv, Processes::kOne, [&] {
    if (config.empty() && !norms && !ops && !presets && !datasets && !tasks && !optimizers &&
        !schedules && !policies && !models && !configs && keys->empty() && shell.empty()) {
      throw ConfigError("name a config or give an option; see dtn-info --help");
    }
    if (!config.empty()) print_model(config, overrides, registries);
    if (!shell.empty()) std::fputs(completion_script(shell).c_str(), stdout);
    if (!keys->empty()) print_keys(prefix, markdown, registries.schemas());
    if (norms) print_norms(registries);
    if (ops) print_ops();
    if (presets) print_presets(registries);
    if (configs) print_configs(registries.schemas());
    if (models) print_public_models(registries);
    if (datasets) print_datasets(registries.datasets);
    if (tasks) print_tasks(registries.tasks);
    if (optimizers) print_rows(registries.optimizers);
    if (schedules) print_rows(registries.schedules);
    if (policies) print_rows(registries.augmentations);
    return static_cast<int>(kExitDone);
  });
}

}  // namespace dtn::app
