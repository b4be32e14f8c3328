// What a task measures, over a data set.
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

struct EvalOptions {
  DType compute = DType::kFloat32;  // of activations
  bool skip_unread = true;          // see Mode
  Meter* meter = nullptr;           // null: one of the task's
  // Called after each batch with what the task made of it, on the host, and the number of samples
  // done.
  std::function<void(const DeviceBatch&, const Fields& outputs, std::int64_t done)> on_batch;
  // Asked before each batch; true, from any rank, ends the evaluation early.
  std::function<bool()> stop;
  // That share the samples, each by a loader of its own; null: alone.
  Communicator* ranks = nullptr;
};

// One epoch of the feeder, which must feed the task's device; with ranks, the result is that of
// all. Nothing when it was stopped.
std::optional<Evaluation> evaluate(Task& task, BatchFeeder& feeder,
                                   const EvalOptions& options = {});

}  // namespace dtn
