// dtn-eval --samples: judges samples of a diffusion model by a classifier.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/tasks/classify.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// --samples and the options that belong to it.
struct SampleOptions {
  std::string samples;             // safetensors file; empty: another evaluation
  std::int64_t references = 5000;  // training images to compare with
  std::string reference_samples;   // file of other samples to judge besides; empty: none

  // Adds the options, and returns --samples.
  CLI::Option* add_to(CLI::App& app);
};

struct SampleEvaluation {
  const SampleOptions& options;
  const ExperimentConfig& config;  // of the judge
  Classify& judge;                 // with its weights
  std::int64_t batch = 64;
  bool json = false;
  Device device = kCpu;
  const Registries& registries;
};

// Judges the samples and the references, and prints the results. Returns the exit code. Throws
// ConfigError for a judge that cannot judge images, DataError for samples that do not fit it.
int evaluate_samples(const SampleEvaluation& evaluation);

}  // namespace dtn::app
