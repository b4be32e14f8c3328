// Makes the samples of a source and handles damaged ones. Each damaged sample is logged and counted
// once; too many are an error.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "data/feed/epoch_plan.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct MadeSample {
  std::int64_t index;  // sample, or its replacement
  bool good;           // false: damaged, so the row must be left out
};

// Safe to share between threads.
class SampleMaker {
 public:
  // LoaderOptions::drop_last decides if the next good sample replaces a damaged one.
  SampleMaker(const SampleSource& source, const LoaderOptions& options);

  // Throws DataError if there is no good sample at all or more are damaged than allowed. Passes on
  // other exceptions of the source.
  MadeSample make(const PlannedSample& planned, std::int64_t epoch, FieldRow row,
                  SampleSource::Workspace& workspace);

  // Number of damaged samples so far, and the names of the first hundred.
  std::int64_t damaged() const;
  std::vector<std::string> damaged_names() const;

 private:
  bool try_sample(std::int64_t index, const SampleKey& key, FieldRow& row,
                  SampleSource::Workspace& workspace);
  void add_damaged(std::int64_t index, const std::string& what);

  const SampleSource& source_;
  const bool replace_damaged_;
  const std::uint64_t seed_;
  const std::int64_t max_damaged_;
  mutable std::mutex mutex_;  // for the members below
  std::unordered_set<std::int64_t> damaged_;
  std::vector<std::string> damaged_names_;
};

}  // namespace dtn
