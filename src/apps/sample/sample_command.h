// Command line of dtn-sample, and its checks against a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/program.h"
#include "apps/common/weights_source.h"
#include "dtn/config/train_config.h"
#include "tasks/diffusion/sampler.h"

namespace dtn::app {

struct SampleCommand {
  WeightsOptions weights;
  bool untrained = false;             // draw with the weights before training
  std::vector<std::int64_t> classes;  // one for each image; empty: the classes of `count` images
  std::int64_t count = 0;             // images through the classes in turn; 0: those of `classes`
  std::uint64_t seed = 0;
  std::string sampler = "ddim";
  std::int64_t steps = 50;
  double eta = 0;
  std::optional<double> guidance;  // unset: kDefaultGuidance if the model can be guided
  std::string output, samples, noise;
  std::int64_t columns = 0;  // of the picture; 0: ceil(sqrt N)
  std::int64_t batch = 64;
  MachineOptions machine;

  static constexpr double kDefaultGuidance = 1.5;

  void add_to(CLI::App& app);
  // Throws ConfigError for options that no model allows.
  void check() const;
  // Returns the weights file: of a folder, the average if it has one, which is logged. Throws
  // ConfigError if there is none.
  std::filesystem::path file(const ConfigSchemas& schemas) const;
  // Returns the class of each image.
  std::vector<std::int64_t> labels(const ModelConfig& model) const;
  // Throw ConfigError for a model that cannot draw the samples.
  void check_model(const ExperimentConfig& config) const;
  SamplerOptions sampler_options(const ExperimentConfig& config) const;
};

// True if samples with this number of channels are a picture.
bool shows_as_picture(const ModelConfig& model);

}  // namespace dtn::app
