// dtn-eval --task: k-NN and a linear classifier on the features of a frozen model.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/weights_source.h"
#include "config/feature_evaluation.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// --task and the options that belong to it. Without a task the model's own head is evaluated.
struct FrozenOptions : FeatureEvaluation {
  bool baselines = false;
  std::string linear, save_linear, save_neighbors, train_inputs;
  std::vector<CLI::Option*> neighbors_only;  // options that need k-NN
  std::vector<CLI::Option*> linear_only;     // options that need the task linear
  CLI::Option* knn_only = nullptr;           // --save-neighbors

  // Adds the options, and returns --task.
  CLI::Option* add_to(CLI::App& app);

 private:
  // Adds the options of the linear classifier's training, and returns them.
  std::vector<CLI::Option*> add_training_to(CLI::App& app);
};

// The rest of the command line, as far as it concerns these evaluations.
struct FrozenCommand {
  const WeightsOptions& weights;
  const FrozenOptions& options;
  std::string inputs, save_features;
  std::optional<int> batch_size;
  bool json = false;
  Device device = kCpu;
  const Registries& registries;
};

// Runs the evaluation and prints its result. Returns the exit code.
int evaluate_frozen(const FrozenCommand& command);

}  // namespace dtn::app
