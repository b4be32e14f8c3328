// How long the runs of a sweep are.
#pragma once

#include <utility>
#include <vector>

#include "bench/run_size.h"
#include "dtn/models/complexity.h"
#include "sweep/sweep_plan.h"

namespace dtn {

// Sizes of runs; those that read the same data in the same way open it once.
class SizeCache {
 public:
  explicit SizeCache(const DataRegistries& registries) : registries_(registries) {}

  RunSize of(const ExperimentConfig& config);

 private:
  const DataRegistries& registries_;
  std::vector<std::pair<ExperimentConfig, RunSize>> known_;
};

// What a sample costs, by variant. To count that takes a fraction of a second each.
std::vector<Complexity> costs_of(const SweepConfig& sweep, const Registries& registries);

// The last step in a run's metrics.jsonl, or 0.
std::int64_t logged_step(const std::filesystem::path& run);

}  // namespace dtn
