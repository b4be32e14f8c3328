// How long the runs of a sweep are.
#pragma once

#include <vector>

#include "bench/run_size.h"
#include "dtn/models/complexity.h"
#include "sweep/sweep_plan.h"

namespace dtn {

// Data and sizes of runs; those that read the same data in the same way open it once.
class SizeCache {
 public:
  struct Entry {
    ExperimentConfig key;
    RunData data;
    RunSize size;
  };

  // Samples are made for `device`, which is not touched.
  SizeCache(Device device, const Registries& registries)
      : device_(device), registries_(registries) {}

  // Valid until the next call.
  const Entry& of(const ExperimentConfig& config);

 private:
  Device device_;
  const Registries& registries_;
  std::vector<Entry> known_;
};

// What a sample costs, by variant. To count that takes a fraction of a second each.
std::vector<Complexity> costs_of(const SweepConfig& sweep, const Registries& registries);

// The last step in a run's metrics.jsonl, or 0.
std::int64_t logged_step(const std::filesystem::path& run);

}  // namespace dtn
