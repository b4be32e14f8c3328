#include "data/feed/sample_maker.h"

#include "dtn/core/check.h"

namespace dtn {

SampleMaker::SampleMaker(const SampleSource& source, const LoaderOptions& options)
    : source_(source),
      replace_damaged_(options.drop_last),
      seed_(options.seed),
      damaged_(options.max_bad_images) {}

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
  std::string what;
  try {
    source_.make(index, key, row, workspace);
    return true;
  } catch (const DataError& e) {
    what = e.what();
  }
  damaged_.add(index, source_.sample_name(index), what);
  return false;
}

}  // namespace dtn
