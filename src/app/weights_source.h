// Where a program's weights come from, and the config that goes with them.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "dtn/config/load.h"
#include "dtn/io/safetensors.h"

namespace dtn::app {

// --checkpoint, --config, --set and --ema.
struct WeightsOptions {
  std::string checkpoint, config;
  std::vector<std::string> overrides;
  bool ema = false;

  // `ema_help` is what the program does with the moving average. By the default `names` the
  // checkpoint may also stand alone on the command line.
  void add_to(CLI::App& app, const std::string& ema_help,
              const std::string& names = "--checkpoint,checkpoint");

  // The safetensors file that --checkpoint means, see find_weights(). Throws ConfigError where
  // there is none.
  std::filesystem::path file() const;
  // The config in --config, or else the one that the file carries, or else what a config.json of
  // timm's beside it says, with what --set overrides.
  // Throws ConfigError where there is none, or for what is wrong with it.
  ExperimentConfig config_of(const TensorFile& weights, const ConfigSchemas& schemas) const;
};

}  // namespace dtn::app
