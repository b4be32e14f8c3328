// Evaluation of a task on a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "data/feed/feeder.h"
#include "dtn/dist/communicator.h"
#include "dtn/tasks/task.h"

namespace dtn {

struct Evaluation {
  Metrics metrics;
  std::int64_t count = 0;  // samples, of all ranks
  double seconds = 0;
  DType compute = DType::kFloat32;  // of activations
};

// The evaluations of a training run after a step.
struct Evaluations {
  Evaluation weights;
  std::optional<Evaluation> average;  // of the weights; unset: the run has no average
};

struct EvalOptions {
  DType compute = DType::kFloat32;  // of activations
  // Sees all that the model computes, so Mode::skip_unread is off; null: none.
  Observer* observer = nullptr;
  Meter* meter = nullptr;  // null: a new one from the task
  // Samples with which the task compares (Task::references()); null: none.
  BatchFeeder* references = nullptr;
  // Called after each batch of references with the number done.
  std::function<void(std::int64_t done)> on_reference;
  // Called after each batch with the outputs of the task, on the host, and the number of samples
  // done.
  std::function<void(const DeviceBatch&, const Fields& outputs, std::int64_t done)> on_batch;
  // Called before each batch. If it returns true on any rank, the evaluation ends early.
  std::function<bool()> stop;
  // Ranks that share the samples, each with a separate loader; null: a single process.
  Communicator* ranks = nullptr;
};

// Evaluates one epoch of the feeder, which must feed the task's device. With ranks, the result
// covers the samples of all ranks. Nothing if the evaluation was stopped.
std::optional<Evaluation> evaluate(Task& task, BatchFeeder& feeder,
                                   const EvalOptions& options = {});

}  // namespace dtn
