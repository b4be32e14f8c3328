// Reading and writing experiment configs. Only src/config/yaml.cpp depends on YAML.
//
// Parsing is strict. Unknown keys, duplicate keys, aliases and anchors, wrong types and impossible
// values throw ConfigError. The message names file:line:column (or the --set option), the problem
// and the nearest valid alternative.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn {

// The values of an augmentation preset.
AugmentConfig augment_preset(AugmentPreset preset);

// Finds a config by its path, or by a bare name (with or without .yaml, folders in front allowed).
// A bare name is searched below the folders in the environment variable DTN_CONFIGS (separated by
// colons), then in share/dtn/configs beside the program's folder and in the library's installation.
// Last come the presets with public weights, by <preset>.<tag> or <preset>. A folder of the
// Hugging Face hub stands for its config.json. Throws ConfigError, listing the searched places and
// the nearest config, if nothing is found.
std::string find_config(const std::string& file_or_name, const ConfigSchemas& schemas);

// The names under which the configs of these folders are found, sorted.
std::vector<std::string> shipped_configs();

// Reads `path`, applies `overrides` ("key.path=value", in order), fills in the defaults and checks
// the result. Follows `base:`, a file or a list of files relative to `path`. `schemas` holds the
// entries of the registries.
//
// Later layers win: preset, base files, the file, overrides. null restores the default. Some values
// discard dependent keys of lower layers:
// - another model.preset, model.norm.type, data.dataset, optim.name or schedule.name discards the
//   keys that the new choice does not read, or reads with another meaning or default;
// - schedule.steps discards schedule.epochs, and the other way round (neither: 300 epochs);
//   schedule.milestones and schedule.decay_epochs discard each other too;
// - a train.batch_size not above train.micro_batch discards train.micro_batch.
//
// A key that the choices do not read is an error, unless its value is the default: a printed config
// has all keys. In the config.yaml of a run, such keys are ignored; see ConfigOrigin.
//
// `resample` is the value of data.resample if no layer sets it. For the config.yaml of a run that
// value is always pillow12: the run may be older than the key, and its bits must not change.
ExperimentConfig load_experiment(const std::string& path, std::span<const std::string> overrides,
                                 const ConfigSchemas& schemas,
                                 Resample resample = Resample::kPillow13);
// True if the file, a base file, or an override sets the key.
bool sets_key(const std::string& path, std::span<const std::string> overrides,
              const ConfigSchemas& schemas, const std::string& key);

// kStored: the config of a run or a checkpoint. Keys that its choices do not read are ignored,
// because older versions accepted some of them.
enum class ConfigOrigin { kWritten, kStored };

// load_experiment() from text, for configs embedded in checkpoints. data.resample is pillow12
// unless it is set. `source` names the text in errors. `base:` is an error here.
ExperimentConfig parse_experiment(const std::string& text, const std::string& source,
                                  std::span<const std::string> overrides,
                                  const ConfigSchemas& schemas,
                                  ConfigOrigin origin = ConfigOrigin::kWritten);

// Returns the task of a config embedded in a weights file; the rest of the text is not checked.
// Empty if the text is not a config.
std::string task_of_config(const std::string& text);

// The fully resolved config as YAML. parse_experiment() of it returns the same config.
std::string to_yaml(const ExperimentConfig& config);
// The same as keys and values: {"optim.lr", "0.001"}.
std::vector<std::pair<std::string, std::string>> config_entries(const ExperimentConfig& config);
// The same with the meaning of each key as a comment above it.
std::string to_commented_yaml(const ExperimentConfig& config, const ConfigSchemas& schemas);

// The differences between two configs, like "optim.lr is 1.0e-03, was 5.0e-04".
std::vector<std::string> config_differences(const ExperimentConfig& was,
                                            const ExperimentConfig& now);

}  // namespace dtn
