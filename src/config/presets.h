// The presets of the registry, and the public weights of some of them. Nothing here knows a model
// by name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/document.h"
#include "dtn/config/schemas.h"

namespace dtn::config {

// Null if there is no preset of this name.
const PresetSchema* find_preset(const std::string& name, std::span<const PresetSchema> presets);
// Returns a copy of the preset that model.preset names. Throws an error at the value's position.
ModelConfig read_preset(const Node& root, const ConfigSchemas& schemas);
// Returns the names of the presets without public weights.
std::vector<std::string> plain_presets(const ConfigSchemas& schemas);

// A preset with one of its releases.
struct PublicModel {
  const PresetSchema* preset;
  const ReleaseSchema* release;

  std::string name() const { return cat(preset->name(), ".", release->tag); }
};

// Finds a model by its full name, or by the preset alone, which means its first release.
std::optional<PublicModel> find_public_model(const std::string& name, const ConfigSchemas& schemas);
// Returns the names of all public models and their presets, for hints.
std::vector<std::string> public_names(const ConfigSchemas& schemas);
// Returns a sentence that explains why a network of this name is not supported; empty if unknown.
std::string reason_against(const std::string& name, const ConfigSchemas& schemas);
// Returns a config of this model: keys of `model` and `data`.
std::string config_text(const PublicModel& model);

}  // namespace dtn::config
