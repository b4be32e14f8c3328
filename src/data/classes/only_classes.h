// The samples of some classes of a data set, with new labels.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dtn/data/dataset.h"

namespace dtn {

class OnlyClasses final : public Dataset {
 public:
  static constexpr std::int64_t kNone = -1;

  // `labels`: the new label of each class of `whole`, or kNone to leave out its samples. `classes`:
  // the names and the number of the new classes; its owner is not used. `chosen`: the number of
  // kept classes, for the description; unset if all are kept.
  OnlyClasses(std::shared_ptr<const Dataset> whole, std::span<const std::int64_t> labels,
              ClassList classes, std::optional<std::size_t> chosen = {});

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    return whole_->load(place(index), workspace);
  }
  std::int64_t length(std::int64_t index) const override { return whole_->length(place(index)); }
  std::string sample_name(std::int64_t index) const override {
    return whole_->sample_name(place(index));
  }
  std::string item_name(std::int64_t index) const override {
    return whole_->item_name(place(index));
  }
  std::string file_name(std::int64_t index) const override {
    return whole_->file_name(place(index));
  }

 private:
  std::int64_t place(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> places_;
};

}  // namespace dtn
