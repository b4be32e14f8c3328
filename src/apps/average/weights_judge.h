// Figures of weights on the validation split.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/metrics.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

class WeightsJudge {
 public:
  // `file` has weights of the task of `config`, and determines the classes of its outputs.
  // `batch_size`: samples per batch. The registries must outlive the object. Throws ConfigError for
  // a task whose evaluations compare with other samples, and DataError if the config has no
  // validation split.
  WeightsJudge(const ExperimentConfig& config, const std::filesystem::path& file, Device device,
               const Registries& registries, std::int64_t batch_size);

  // Evaluates weights laid out like the store of the config's task, float32 on the CPU. `title`
  // stands before the progress bar.
  Metrics figures(const Tensor& weights, const std::string& title);

 private:
  ExperimentConfig config_;
  Device device_;
  std::int64_t batch_size_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<const SampleSource> source_;
};

}  // namespace dtn::app
