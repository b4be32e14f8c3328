// Makes the samples of a source and handles damaged ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/feed/bad_images.h"
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

  const BadImages& damaged() const { return damaged_; }

 private:
  bool try_sample(std::int64_t index, const SampleKey& key, FieldRow& row,
                  SampleSource::Workspace& workspace);

  const SampleSource& source_;
  const bool replace_damaged_;
  const std::uint64_t seed_;
  BadImages damaged_;
};

}  // namespace dtn
