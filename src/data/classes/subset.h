// Some samples of a data set, in a chosen order.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtn/data/dataset.h"

namespace dtn {

// Derived classes give the labels, classes and fields of the samples, and their description.
class Subset : public Dataset {
 public:
  Sample load(std::int64_t index, SampleWorkspace& workspace) const final {
    return whole_->load(place(index), workspace);
  }
  std::int64_t length(std::int64_t index) const final { return whole_->length(place(index)); }
  std::string sample_name(std::int64_t index) const final {
    return whole_->sample_name(place(index));
  }
  std::string item_name(std::int64_t index) const final { return whole_->item_name(place(index)); }
  std::string file_name(std::int64_t index) const final { return whole_->file_name(place(index)); }

 protected:
  // Begins without samples, and takes over what the samples are.
  explicit Subset(std::shared_ptr<const Dataset> whole) : whole_(std::move(whole)) {
    has_pixels_ = whole_->has_pixels();
    has_labels_ = whole_->has_labels();
    vocabulary_ = whole_->vocabulary();
  }

  const Dataset& whole() const { return *whole_; }
  // The index in whole() of each sample.
  const std::vector<std::int64_t>& places() const { return places_; }
  void add(std::int64_t place, std::int64_t label) {
    places_.push_back(place);
    labels_.push_back(label);
  }

 private:
  std::int64_t place(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> places_;
};

}  // namespace dtn
