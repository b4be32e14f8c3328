// Lengths of a sweep's runs.
#pragma once

#include <vector>

#include "apps/estimate/run_size.h"
#include "apps/sweep/sweep_plan.h"
#include "dtn/models/complexity.h"

namespace dtn {

// Data and sizes of runs. Runs that read the same data in the same way open it only once.
class SizeCache {
 public:
  struct Entry {
    ExperimentConfig key;
    RunData data;
    RunSize size;
  };

  enum WhenMissing { kFail, kMakeUpWhatIsMissing };

  // Prepares samples for `device` without using the device. If data is missing, of() throws
  // DataError or makes synthetic samples, as `when` says.
  SizeCache(Device device, const Registries& registries, WhenMissing when = kFail)
      : device_(device), registries_(registries), when_(when) {}

  // The reference is valid until the next call.
  const Entry& of(const ExperimentConfig& config);
  // Describes the data that was missing and replaced; empty if there was none.
  const std::string& note() const { return note_; }

 private:
  Device device_;
  const Registries& registries_;
  WhenMissing when_;
  std::string note_;
  std::vector<Entry> known_;
};

// Returns the cost of a sample for each variant. Takes a fraction of a second per variant.
std::vector<Complexity> costs_of(const SweepConfig& sweep, const Registries& registries);

// Returns the last step in a run's metrics.jsonl, or 0.
std::int64_t logged_step(const std::filesystem::path& run);

}  // namespace dtn
