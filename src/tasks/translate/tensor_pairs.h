// Pairs of pictures from a file of tensors, as samples of the task translate.
//
// Fields, and their tensors [N, ...] in the file: "input" [Ci, H, W] and "target" [Co, H, W]
// float32. They are used unchanged, also outside of [0, 1]. If the model reads a condition
// (condition_field()), also "style" int64, from 0 to model.condition.styles - 1, "vector" [K]
// float32 or "style_image" [Ci, H, W] float32. If it reads a map (reads_map()), also "map" [K, H,
// W] float32, K model.condition.size; in the file also labels [H, W] int64 from 0 to K - 1, which
// become 1 in the channel of the label and 0 in the others.
#pragma once

#include <string>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// True if a normalizer of the model reads the field "map".
bool reads_map(const ModelConfig& model);

// Reads the fields of all pairs from a safetensors file, which stays mapped. Throws DataError,
// naming file, field, value and index, if a field is missing, has another shape or type, or has a
// value outside of its range.
Fields read_tensor_pairs(const std::string& path, const ModelConfig& model);

class TensorPairs final : public SampleSource {
 public:
  // As read_tensor_pairs().
  TensorPairs(std::string path, const ModelConfig& model);

  std::int64_t size() const override { return fields_.count(); }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "pairs"; }
  std::string sample_name(std::int64_t index) const override { return cat(path_, "[", index, "]"); }
  std::string identity(std::int64_t index) const override;
  std::vector<FieldSpec> host_fields() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  std::string path_, description_;
  Fields fields_;  // [N, ...] each, as the file has them
  std::int64_t map_classes_;
};

}  // namespace dtn
