// Reading and writing experiment configs. The only implementation that sees YAML is
// src/config/yaml.cpp.
//
// Strict: unknown keys, duplicate keys, aliases and anchors, wrong types and impossible values
// throw ConfigError with file:line:column (or the --set it came from), what is wrong and the
// nearest thing that would be right.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// Presets under names of ours: everything of ModelConfig but image, data and norm choices.
std::span<const ModelConfig> model_presets();
// One of those, or a network of timm's by its name there. Throws ConfigError that lists the presets
// and names the nearest one.
const ModelConfig& model_preset(const std::string& name);

// The values that a preset of augmentation stands for.
AugmentConfig augment_preset(AugmentPreset preset);

// Finds a config by path, or, for a bare name (with or without .yaml, folders in front allowed),
// below the folders that the environment lists in DTN_CONFIGS (separated by colons), then in
// share/dtn/configs beside the program's folder and where the library is installed; then among the
// public models of timm's, by <architecture>.<tag> or <architecture>. A folder of the Hugging Face
// hub stands for the config.json in it. Throws ConfigError that lists where it looked and names the
// nearest config.
std::string find_config(const std::string& file_or_name);

// The names by which the configs of these folders are found, sorted.
std::vector<std::string> shipped_configs();

// Reads `path` (following `base:`, a file or a list of files relative to it), applies `overrides`
// ("key.path=value", in order), fills the defaults in and checks the whole. `schemas` are the
// registries it may choose from.
//
// What is set higher up wins: the preset is lowest, then base files, the file, the overrides; null
// goes back to the default. Some choices take along what belonged to them:
// - another model.norm.type drops the options below it, another data.dataset the split names and
//   the keys that mean nothing for it;
// - schedule.steps drops schedule.epochs from below, and the other way round (neither: 300 epochs);
//   so do schedule.milestones and schedule.decay_epochs; another schedule.name drops the keys that
//   mean nothing, or something else, for it;
// - a train.batch_size not above a train.micro_batch from below drops that.
//
// `resample` is data.resample where nobody sets it. In the config.yaml of a run it is pillow12 in any
// case, as the run was made before the key and keeps its bits.
ExperimentConfig load_experiment(const std::string& path, std::span<const std::string> overrides,
                                 const ConfigSchemas& schemas,
                                 Resample resample = Resample::kPillow13);
// True if the file, what it inherits, or an override sets the key.
bool sets_key(const std::string& path, std::span<const std::string> overrides,
              const ConfigSchemas& schemas, const std::string& key);
// The same as load_experiment() from text, for configs embedded in checkpoints, where data.resample
// is pillow12 unless it is set; `source` names it in errors. `base:` is an error here.
ExperimentConfig parse_experiment(const std::string& text, const std::string& source,
                                  std::span<const std::string> overrides,
                                  const ConfigSchemas& schemas);

// The fully resolved config as YAML; parse_experiment of it gives the same config back.
std::string to_yaml(const ExperimentConfig& config);
// The same as keys and values: {"optim.lr", "0.001"}.
std::vector<std::pair<std::string, std::string>> config_entries(const ExperimentConfig& config);
// The same with what each key means as a comment above it.
std::string to_commented_yaml(const ExperimentConfig& config, const ConfigSchemas& schemas);

// What is not the same in two configs, like "optim.lr is 1.0e-03, was 5.0e-04".
std::vector<std::string> config_differences(const ExperimentConfig& was,
                                            const ExperimentConfig& now);

}  // namespace dtn
