// Source of a program's weights, and the config that belongs to them.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/io/safetensors.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// --checkpoint, --config, --set and --ema.
struct WeightsOptions {
  std::string checkpoint, config;
  std::vector<std::string> overrides;
  bool ema = false;

  // `ema_help` says what the program does with the moving average. With the default `names`, the
  // checkpoint may also be given without the option name.
  void add_to(CLI::App& app, const std::string& ema_help,
              const std::string& names = "--checkpoint,checkpoint");
  // The same without --checkpoint, for programs that read several.
  void add_config_to(CLI::App& app, const std::string& ema_help);

  // Returns the path of --checkpoint, which may also be the name of a model in the cache; see
  // locate_weights().
  std::filesystem::path located(const ConfigSchemas& schemas) const;
  // Returns the safetensors file that --checkpoint refers to; see find_weights(). Throws
  // ConfigError if there is none.
  std::filesystem::path file(const ConfigSchemas& schemas) const;
  // The same, but without --ema the folder of a task whose average is the model to use gives the
  // average; see find_trained_weights().
  std::filesystem::path trained_file(const Registries& registries) const;
  // Returns the config of --config, or else the config stored in the weights file, or else the
  // config of a timm config.json beside the file. Applies the overrides of --set. Throws
  // ConfigError if there is no config, or if the config is invalid.
  ExperimentConfig config_of(const TensorFile& weights, const ConfigSchemas& schemas) const;
};

}  // namespace dtn::app
