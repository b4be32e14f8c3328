// Vision transformers with public weights, under their timm names: an architecture, and a tag for
// each release, as in deit_small_patch16_224.fb_in1k.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"

namespace dtn::config {

// Networks of the public models, as presets. The number of classes belongs to a release.
std::span<const ModelConfig> public_architectures();

struct PublicModel {
  std::string name;  // <architecture>.<tag>
  const ModelConfig* architecture = nullptr;
  int num_classes = 0;
  // Preprocessing of the images.
  double crop_pct = 0;
  std::array<double, 3> mean{}, std{};
  Interpolation interpolation = Interpolation::kBicubic;
};

// Releases of one architecture are adjacent; timm's default release comes first.
std::span<const PublicModel> public_models();

// Finds a model by its full name, or by the architecture alone, which means its first release. Null
// if there is no match.
const PublicModel* find_public_model(const std::string& name);

// Returns a sentence that explains why a network of this name is not supported; empty if unknown.
std::string reason_against(const std::string& name);

// Returns the names of public_models() and of public_architectures(), for hints.
std::vector<std::string> public_names();

// Returns a config of this model: keys of `model` and `data`.
std::string config_text(const PublicModel& model);

}  // namespace dtn::config
