// Labelled sequences of tokens as samples of a task.
//
// Host and device fields: "tokens" [max_length] int64, ragged (so its lengths are included), with
// zeros after the end of a sequence, and "label" int64.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"

namespace dtn {

struct TokenSamplesOptions {
  std::int64_t max_length = 0;  // tokens; longer sequences are cut at the end
  // Shuffled batches consist of sequences of similar length; see data/feed/length_buckets.h.
  bool batches_by_length = false;
};

class TokenSamples final : public SampleSource {
 public:
  // Warns about sequences that are cut. Throws ConfigError if the samples are not sequences.
  TokenSamples(std::shared_ptr<const Dataset> dataset, const TokenSamplesOptions& options);

  const Dataset& dataset() const { return *dataset_; }

  std::int64_t size() const override { return dataset_->size(); }
  const std::string& description() const override { return dataset_->description(); }
  std::string noun() const override { return "sequences"; }
  std::string sample_name(std::int64_t index) const override {
    return dataset_->sample_name(index);
  }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::vector<std::int64_t> labels() const override;
  std::string identity(std::int64_t index) const override;
  std::vector<std::int64_t> lengths() const override;
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            Workspace& workspace) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  TokenSamplesOptions options_;
};

}  // namespace dtn
