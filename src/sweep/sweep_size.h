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

  enum WhenMissing { kFail, kMakeUpWhatIsMissing };

  // Samples are made for `device`, which is not touched. Where there is no data, of() throws
  // DataError, or made-up samples take its place.
  SizeCache(Device device, const Registries& registries, WhenMissing when = kFail)
      : device_(device), registries_(registries), when_(when) {}

  // Valid until the next call.
  const Entry& of(const ExperimentConfig& config);
  // What was missing and made up, in words; empty: nothing was.
  const std::string& note() const { return note_; }

 private:
  Device device_;
  const Registries& registries_;
  WhenMissing when_;
  std::string note_;
  std::vector<Entry> known_;
};

// What a sample costs, by variant. To count that takes a fraction of a second each.
std::vector<Complexity> costs_of(const SweepConfig& sweep, const Registries& registries);

// The last step in a run's metrics.jsonl, or 0.
std::int64_t logged_step(const std::filesystem::path& run);

}  // namespace dtn
