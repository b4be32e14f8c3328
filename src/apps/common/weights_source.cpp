#include "apps/common/weights_source.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "apps/common/program.h"
#include "config/choices.h"
#include "config/document.h"
#include "config/model_cache.h"
#include "config/presets.h"
#include "data/sample/normalization.h"
#include "dtn/core/check.h"
#include "io/weights_file.h"
#include "tasks/trained_weights.h"

namespace dtn::app {

namespace fs = std::filesystem;

void WeightsOptions::add_to(CLI::App& app, const std::string& ema_help, const std::string& names) {
  app.add_option(names, checkpoint,
                 "checkpoint folder, run folder, folder of a Hugging Face hub model, safetensors "
                 "file of weights, or name of a public model that dtn-get has fetched")
      ->required();
  add_config_to(app, ema_help);
}

void WeightsOptions::add_config_to(CLI::App& app, const std::string& ema_help) {
  app.add_option("--config", config,
                 "config file or name, or the name of a public model (dtn-info --models), if the "
                 "weights file contains no config");
  add_overrides(app, overrides, "override one key (repeatable)");
  app.add_flag("--ema", ema, ema_help);
}

namespace {

// Gives images of another data set or folder the mean and deviation of the training images, if the
// training took the usual ones of its data set.
void keep_statistics(const ExperimentConfig& trained, ExperimentConfig& config,
                     const ConfigSchemas& schemas) {
  const int channels = config.model.channels;
  const bool has_pixels = config.model.max_length == 0 && (channels == 1 || channels == 3);
  if (!has_pixels || !dataset_registry().find(trained.data.dataset)) return;
  for (const ExperimentConfig* each : {&trained, &std::as_const(config)}) {
    if (!config::is_read("data.mean", *each, schemas)) return;
  }
  const DataConfig of_training = with_statistics(trained.data, channels, dataset_registry());
  config.data.mean = of_training.mean;
  config.data.std = of_training.std;
}

// True if the run diverged: it has a checkpoint that was set aside.
bool is_diverged(const fs::path& run) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
    if (entry.path().filename().string().starts_with("diverged-step-")) return true;
  }
  return false;
}

const char* why_no_weights(const fs::path& path) {
  if (path.empty()) return "no file or folder is named";
  if (!fs::exists(path)) return "no such file or folder";
  if (fs::exists(path / "config.yaml")) {
    if (is_diverged(path)) return "this run diverged and has no checkpoint with a finite loss";
    return "this run has no checkpoint yet; train.checkpoint_every sets when it writes one";
  }
  if (!fs::is_directory(path)) return "neither a file nor a folder";
  for (const char* pickle : {"pytorch_model.bin", "model.pth", "pytorch_model.pth"}) {
    if (!fs::exists(path / pickle)) continue;
    return "contains a PyTorch pickle but no model.safetensors; pass the pickle file itself to see "
           "how to convert it";
  }
  return "contains no model.safetensors; name a safetensors file, a checkpoint folder or a run "
         "folder";
}

}  // namespace

fs::path WeightsOptions::located(const ConfigSchemas& schemas) const {
  return locate_weights(checkpoint, schemas);
}

fs::path WeightsOptions::file(const ConfigSchemas& schemas) const {
  const fs::path path = located(schemas);
  const auto model = find_weights(path);
  if (!ema && model) return *model;
  if (const auto average = find_weights(path, WeightsKind::kAverage); ema && average) {
    return *average;
  }
  if (model) {
    throw ConfigError(cat("--ema: ", model->parent_path().string(),
                          " has no ema.safetensors; the run had no train.ema, so leave --ema out"));
  }
  for (const fs::path& folder :
       {path, path / "checkpoints" / "best", path / "checkpoints" / "last"}) {
    if (fs::exists(folder / "state.safetensors")) {
      throw ConfigError(cat("--checkpoint ", path.string(), ": ", folder.string(), " has no ",
                            ema ? "ema.safetensors" : "model.safetensors",
                            "; name another checkpoint of the run"));
    }
  }
  const std::string guess =
      fs::exists(path) ? "" : config::did_you_mean(checkpoint, config::public_names(schemas));
  throw ConfigError(cat("--checkpoint ", path.string(), ": ", why_no_weights(path), guess));
}

fs::path WeightsOptions::trained_file(const Registries& registries) const {
  const ConfigSchemas schemas = registries.schemas();
  fs::path model = file(schemas);
  if (ema) return model;
  return find_trained_weights(located(schemas), registries.tasks).value_or(model);
}

ExperimentConfig WeightsOptions::config_of(const TensorFile& weights,
                                           const ConfigSchemas& schemas) const {
  if (!config.empty()) return load_experiment(find_config(config, schemas), overrides, schemas);
  const auto embedded = weights.metadata.find("config");
  if (embedded == weights.metadata.end()) {
    const fs::path hub = file(schemas).parent_path() / "config.json";
    if (fs::exists(hub)) return load_experiment(hub, overrides, schemas);
    throw ConfigError(cat(checkpoint,
                          " contains no config, and there is no config.json beside it; give one "
                          "with --config: a file, or a name that dtn-info --models lists"));
  }
  const auto parse = [&](const std::vector<std::string>& keys) {
    return parse_experiment(embedded->second, checkpoint + " (config)", keys, schemas,
                            ConfigOrigin::kStored);
  };
  ExperimentConfig stored = parse(overrides);
  const bool given = std::ranges::any_of(overrides, [](const std::string& key) {
    return key.starts_with("data.mean") || key.starts_with("data.std");
  });
  if (!overrides.empty() && !given) keep_statistics(parse({}), stored, schemas);
  return stored;
}

}  // namespace dtn::app
