// Pairs of random pictures, with what the model reads: for benchmarks and estimates without data.
#pragma once

#include <string>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// data.size samples (default 1024, and 256 for validation) with the fields of the task translate:
// uniform pixels in [0, 1), `style` = index mod model.condition.styles. They depend on the seed,
// the split and the index.
class SyntheticPairs final : public SampleSource {
 public:
  SyntheticPairs(const ExperimentConfig& config, Split split);

  std::int64_t size() const override { return size_; }
  const std::string& description() const override { return description_; }
  std::string noun() const override { return "pictures"; }
  std::string sample_name(std::int64_t index) const override {
    return cat("synthetic[", index, "]");
  }
  std::vector<FieldSpec> host_fields() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  std::uint32_t split_;
  ModelConfig model_;
  std::string description_;
};

}  // namespace dtn
