// dtn-eval on the validation split of a data set, or on the inputs of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/eval/condition_options.h"
#include "apps/eval/grid_file.h"
#include "apps/eval/model_reporter.h"
#include "apps/eval/result_files.h"
#include "dtn/config/schemas.h"
#include "dtn/core/metrics.h"
#include "dtn/tasks/task.h"

namespace dtn::app {

struct TaskEvaluation {
  const ExperimentConfig& config;
  Task& task;
  Device device;
  DType compute;
  std::int64_t batch_size;     // samples of a rank
  const ResultPaths& results;  // of classifiers, and logits of a diffusion model
  ModelReporter* reporter;     // null: no report
  GridOptions grid{};          // of an image-to-image model
  ConditionOptions condition{};
};

// Results of an evaluation; metrics exist only if there were labels.
struct Outcome {
  std::optional<Metrics> metrics;
  std::string noun = "images";          // unit of `count`
  std::int64_t count = 0, skipped = 0;  // `skipped`: damaged samples
  double seconds = 0;
  std::optional<StyleTable> styles{};
};

// Evaluates a classifier on the file of --inputs, without preprocessing.
Outcome evaluate_inputs(const TaskEvaluation& e, const std::string& inputs);

// Evaluates the validation split of the config's data set.
Outcome evaluate_split(const TaskEvaluation& e);

// Prints the results. In JSON, metrics are null if there are no labels.
void print_outcome(const Outcome& outcome, const Task& task, const TaskSchema& schema, bool json);

}  // namespace dtn::app
