// Generated pairs of pictures as samples of the task translate, see drawn_picture.h. A picture
// depends on (seed, split, index) alone.
//
// With data.drawn: map, the model paints a map of classes. Fields: "input" [4, 32, 32] float32, 1
// for the class of a pixel (background, disk, square, triangle); "target" [3, 32, 32], each class
// in its texture; and if the model reads a map (reads_map()), "map", equal to "input". With
// plain_map, map i has one class everywhere, i mod 4.
//
// With data.drawn: question, the model marks what is asked for. Fields: "input" [3, 32, 32]
// float32, coloured shapes on grey noise; "target" [1, 32, 32], 1 for the shapes with the form and
// the colour of the question; and if the model reads a condition, "vector" [7], the question: disk,
// square, triangle; red, green, blue, yellow.
#pragma once

#include <string>
#include <vector>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

class DrawnSamples final : public SampleSource {
 public:
  // data.size pictures; 1024 or, for validation, 256 if that is unset.
  DrawnSamples(const ExperimentConfig& config, Split split);

  std::int64_t size() const override { return size_; }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "pictures"; }
  std::string sample_name(std::int64_t index) const override { return cat("drawn[", index, "]"); }
  std::string identity(std::int64_t index) const override {
    return cat("drawn ", seed_, " ", split_, " ", index);
  }
  std::vector<FieldSpec> host_fields() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  bool has_maps() const { return kind_ != DrawnTask::kQuestion; }

  std::int64_t size_;
  std::uint64_t seed_;
  std::uint32_t split_;
  DrawnTask kind_;
  bool extra_;  // the model reads "map" or "vector"
  std::string description_;
};

}  // namespace dtn
