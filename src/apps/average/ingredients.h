// The models that dtn-average averages.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/common/weights_source.h"
#include "dtn/core/tensor.h"

namespace dtn::app {

// Checkpoints of models of one architecture, read one at a time.
class Ingredients {
 public:
  // `options` has --config, --set and --ema. Throws ConfigError if a file is named twice, or if the
  // models or their classes differ.
  Ingredients(std::vector<std::string> checkpoints, const WeightsOptions& options,
              const Registries& registries);

  std::size_t count() const { return checkpoints_.size(); }
  // As on the command line.
  const std::string& name(std::size_t i) const { return checkpoints_[i]; }
  const std::filesystem::path& file(std::size_t i) const { return files_[i]; }
  // The weights of a model, float32 on the CPU, laid out like the store of a task of config().
  // Notes of adaptations are logged the first time.
  Tensor weights(std::size_t i);
  // The config of the first model.
  const ExperimentConfig& config() const { return config_; }
  const std::vector<std::string>& class_names() const { return class_names_; }  // empty: unknown
  // Warns of models that have learned from the images that the first is evaluated on.
  void warn_of_other_splits() const;
  // True if batch normalizers have running statistics among the weights.
  bool has_statistics() const;
  // These weights by the names of the model's tensors.
  NamedTensors named(const Tensor& weights) const;

 private:
  // The store that an evaluation reads: of a task with a teacher, the teacher's.
  ParameterStore& store() const;

  std::vector<std::string> checkpoints_;
  std::vector<std::filesystem::path> files_;
  std::vector<bool> noted_;
  ExperimentConfig config_;
  std::vector<ExperimentConfig> configs_;  // of all models
  std::vector<std::string> class_names_;
  std::unique_ptr<Task> task_;
};

}  // namespace dtn::app
