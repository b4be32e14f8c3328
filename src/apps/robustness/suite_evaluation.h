// dtn-eval --suite: evaluates a classifier on ImageNet-C or ImageNet-R.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "dtn/io/safetensors.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// --suite and the options that need it.
struct SuiteOptions {
  std::string suite, root, classes, save;
  bool no_clean = false, on_the_fly = false;
  std::string corruptions, severities = "1-5", corrupt_format = "jpeg", frost_dir;
  std::uint64_t corrupt_seed = 0;

  // Adds the options, and returns --suite.
  CLI::Option* add_to(CLI::App& app);
  bool any() const { return !suite.empty(); }
};

struct SuiteEvaluation {
  const SuiteOptions& options;
  const ExperimentConfig& config;
  const TensorFile& weights;
  Classify& task;
  std::int64_t batch_size;
  DType compute;
  bool own_crop;  // data.crop_pct is set for this evaluation
  bool json;
  const Registries& registries;
};

// Prints the results, and returns the exit code. Throws ConfigError if the model has no classes or
// the options do not fit together.
int evaluate_suite(const SuiteEvaluation& e);

}  // namespace dtn::app
