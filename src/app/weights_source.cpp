#include "app/weights_source.h"

#include "app/program.h"
#include "dtn/core/check.h"

namespace dtn::app {

namespace fs = std::filesystem;

void WeightsOptions::add_to(CLI::App& app, const std::string& ema_help) {
  app.add_option("--checkpoint", checkpoint,
                 "checkpoint or run folder, or a safetensors file of weights")
      ->required();
  app.add_option("--config", config, "config, when the file carries none");
  add_overrides(app, overrides, "override one key (repeatable)");
  app.add_flag("--ema", ema, ema_help);
}

fs::path WeightsOptions::file() const {
  const fs::path path = checkpoint;
  if (fs::is_regular_file(path)) return path;
  for (const fs::path& folder : {path, path / "checkpoints" / "best"}) {
    const fs::path model = folder / "model.safetensors", average = folder / "ema.safetensors";
    if (fs::exists(ema ? average : model)) return ema ? average : model;
    if (ema && fs::exists(model)) {
      throw ConfigError(
          cat("--ema: ", folder.string(), " has no ema.safetensors; the run had no train.ema"));
    }
  }
  const char* what = !fs::exists(path) ? "no such file or folder"
                     : fs::exists(path / "config.yaml")
                         ? "this run has no checkpoint yet; train.checkpoint_every says when it has"
                         : "neither a safetensors file nor a checkpoint folder nor a run";
  throw ConfigError(cat("--checkpoint ", path.string(), ": ", what));
}

ExperimentConfig WeightsOptions::config_of(const TensorFile& weights,
                                           const ConfigSchemas& schemas) const {
  if (!config.empty()) return load_experiment(find_config(config), overrides, schemas);
  const auto embedded = weights.metadata.find("config");
  if (embedded == weights.metadata.end()) {
    throw ConfigError(cat(checkpoint, " carries no config; name one with --config"));
  }
  return parse_experiment(embedded->second, checkpoint + " (config)", overrides, schemas);
}

}  // namespace dtn::app
