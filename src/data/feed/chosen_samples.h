// Some samples of a source, in a chosen order. Only these are read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/data/sample_source.h"

namespace dtn {

class ChosenSamples final : public SampleSource {
 public:
  // `places`: the index in `whole` of each sample.
  ChosenSamples(std::shared_ptr<const SampleSource> whole, std::vector<std::int64_t> places);

  std::int64_t size() const override { return static_cast<std::int64_t>(places_.size()); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return whole_->noun(); }
  std::string sample_name(std::int64_t index) const override {
    return whole_->sample_name(place(index));
  }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  std::string identity(std::int64_t index) const override { return whole_->identity(place(index)); }
  std::vector<std::int64_t> lengths() const override;
  std::vector<FieldSpec> host_fields() const override { return whole_->host_fields(); }
  std::unique_ptr<Workspace> make_workspace() const override { return whole_->make_workspace(); }
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            Workspace& workspace) const override {
    whole_->make(place(index), key, row, workspace);
  }
  std::vector<FieldSpec> device_fields() const override { return whole_->device_fields(); }
  std::unique_ptr<BatchFinisher> make_finisher(Device device) const override {
    return whole_->make_finisher(device);
  }

 private:
  std::int64_t place(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const SampleSource> whole_;
  std::vector<std::int64_t> places_;
  std::string description_;
};

}  // namespace dtn
