// Vision transformers whose weights are public, under timm's names: an architecture, and a tag for
// each of its releases, as in deit_small_patch16_224.fb_in1k.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"

namespace dtn::config {

// Their networks, as presets; the number of classes is a release's.
std::span<const ModelConfig> public_architectures();

struct PublicModel {
  std::string name;  // <architecture>.<tag>
  const ModelConfig* architecture = nullptr;
  int num_classes = 0;
  // How its images are prepared.
  double crop_pct = 0;
  std::array<double, 3> mean{}, std{};
  Interpolation interpolation = Interpolation::kBicubic;
};

// Releases of one architecture follow each other, the one that timm takes by default first.
std::span<const PublicModel> public_models();

// By its whole name, or by that of an architecture alone, which stands for its first release. Null
// when there is none.
const PublicModel* find_public_model(const std::string& name);

// Why a network of that name cannot be built here, in a sentence; empty when nothing is known.
std::string reason_against(const std::string& name);

// The names of public_models() and of public_architectures(), for hints.
std::vector<std::string> public_names();

// A config that is this model: keys of `model` and `data`.
std::string config_text(const PublicModel& model);

}  // namespace dtn::config
