// The samples of a source with other conditions than their own, to see what a model makes of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/data/sample_source.h"

namespace dtn {

// Each sample has the condition (condition_fields()) of the next one that is not damaged; after the
// last comes the first. Or, with `style`, all have this style, and their own one in the field
// "own_style" [] int64.
class OtherConditions final : public SampleSource {
 public:
  // `whole` must have the fields of the model's condition.
  OtherConditions(std::shared_ptr<const SampleSource> whole, const ModelConfig& model,
                  std::optional<std::int64_t> style = {});

  std::int64_t size() const override { return whole_->size(); }
  const std::string& description() const override { return whole_->description(); }
  std::string noun() const override { return whole_->noun(); }
  std::string sample_name(std::int64_t index) const override { return whole_->sample_name(index); }
  std::string identity(std::int64_t index) const override { return whole_->identity(index); }
  std::vector<FieldSpec> host_fields() const override;
  std::unique_ptr<SampleSource::Workspace> make_workspace() const override;
  void make(std::int64_t index, const SampleKey& key, FieldRow& row,
            SampleSource::Workspace& workspace) const override;

 private:
  struct WorkspaceOfTwo;

  void take_from_next(std::int64_t index, const SampleKey& key, FieldRow& row,
                      WorkspaceOfTwo& ws) const;

  std::shared_ptr<const SampleSource> whole_;
  std::vector<FieldSpec> condition_;
  std::optional<std::int64_t> style_;
};

}  // namespace dtn
