// dtn-eval for image-to-image models that read a condition: what they make of another one.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/task.h"

namespace dtn::app {

struct ConditionOptions {
  bool shuffle = false;  // each sample gets the condition of the next one
  bool style_table = false;

  bool any() const { return shuffle || style_table; }
  // Adds the options, and returns them.
  std::vector<CLI::Option*> add_to(CLI::App& app);
  // Throws ConfigError if the model does not read what they are for.
  void check(const ExperimentConfig& config) const;
};

// PSNR of the outputs for each style that was asked for, to the targets of each style.
struct StyleTable {
  std::vector<std::string> styles;   // names
  std::vector<std::int64_t> counts;  // samples of each style
  // [asked for][style of the target], in dB; NaN if no sample has the style.
  std::vector<std::vector<double>> psnr;

  std::string text() const;
};

// Evaluates all samples once for each style of the model.
StyleTable evaluate_styles(const ExperimentConfig& config, Task& task,
                           const std::shared_ptr<const SampleSource>& source, Device device,
                           DType compute, std::int64_t batch_size);

}  // namespace dtn::app
