#include "data/feed/sample_maker.h"

#include <algorithm>

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

SampleMaker::SampleMaker(const SampleSource& source, const LoaderOptions& options)
    : source_(source),
      replace_damaged_(options.drop_last),
      seed_(options.seed),
      max_damaged_(options.max_bad_images) {}

MadeSample SampleMaker::make(const PlannedSample& planned, std::int64_t epoch, FieldRow row,
                             SampleSource::Workspace& workspace) {
  const std::int64_t size = source_.size();
  MadeSample made{planned.index, false};
  // A replacement for a damaged sample uses the random numbers of the one it replaces.
  const SampleKey key{seed_, static_cast<std::uint32_t>(epoch), planned.key};
  made.good = try_sample(made.index, key, row, workspace);
  for (std::int64_t tries = 1; !made.good && replace_damaged_; ++tries) {
    if (tries == size) throw DataError(cat("all images are damaged: ", source_.description()));
    made.index = (made.index + 1) % size;
    made.good = try_sample(made.index, key, row, workspace);
  }
  return made;
}

// Returns false if the sample is damaged. A damaged sample is tried again each time: the result may
// depend on the crop, and must not depend on earlier samples, or a resumed run would differ.
bool SampleMaker::try_sample(std::int64_t index, const SampleKey& key, FieldRow& row,
                             SampleSource::Workspace& workspace) {
  try {
    source_.make(index, key, row, workspace);
    return true;
  } catch (const DataError& e) {
    add_damaged(index, e.what());
    return false;
  }
}

// Throws DataError with the first names if there are too many.
void SampleMaker::add_damaged(std::int64_t index, const std::string& what) {
  constexpr std::size_t kMaxNames = 100, kNamesInError = 5;
  std::string name = source_.sample_name(index);  // the source's code runs without the lock
  const std::lock_guard lock(mutex_);
  if (damaged_.insert(index).second) {
    if (damaged_names_.size() < kMaxNames) damaged_names_.push_back(std::move(name));
    log_warn(cat("skipped a damaged image: ", what));
  }
  if (static_cast<std::int64_t>(damaged_.size()) <= max_damaged_) return;
  std::string message =
      cat(damaged_.size(), " damaged images, data.max_bad_images allows ", max_damaged_,
          "; repair or remove them, or raise it. The last: ", what, "\nThe first:");
  for (std::size_t i = 0; i < std::min(damaged_names_.size(), kNamesInError); ++i)
    message += "\n  " + damaged_names_[i];
  throw DataError(message);
}

std::int64_t SampleMaker::damaged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(damaged_.size());
}

std::vector<std::string> SampleMaker::damaged_names() const {
  const std::lock_guard lock(mutex_);
  return damaged_names_;
}

}  // namespace dtn
