#include "data/feed/chosen_samples.h"

#include <utility>

namespace dtn {

ChosenSamples::ChosenSamples(std::shared_ptr<const SampleSource> whole,
                             std::vector<std::int64_t> places)
    : whole_(std::move(whole)), places_(std::move(places)) {
  description_ = cat(size(), " ", whole_->noun(), " from ", whole_->description());
}

std::vector<std::int64_t> ChosenSamples::lengths() const {
  const std::vector<std::int64_t> all = whole_->lengths();
  std::vector<std::int64_t> chosen;
  if (all.empty()) return chosen;
  for (const std::int64_t i : places_) chosen.push_back(all[static_cast<std::size_t>(i)]);
  return chosen;
}

}  // namespace dtn
