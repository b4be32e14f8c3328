#include "tasks/translate/other_conditions.h"

#include <algorithm>
#include <utility>

#include "data/feed/field_buffers.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

template <class T>
void copy_field(const std::string& name, const FieldRow& from, const FieldRow& to) {
  std::ranges::copy(from.at<T>(name), to.at<T>(name).begin());
}

}  // namespace

struct OtherConditions::WorkspaceOfTwo final : SampleSource::Workspace {
  std::unique_ptr<SampleSource::Workspace> own;
  Fields next;  // a row of the next sample
};

OtherConditions::OtherConditions(std::shared_ptr<const SampleSource> whole,
                                 const ModelConfig& model, std::optional<std::int64_t> style)
    : whole_(std::move(whole)), condition_(condition_fields(model)), style_(style) {
  const std::vector<FieldSpec> fields = whole_->host_fields();
  for (const FieldSpec& field : condition_) {
    DTN_CHECK(std::ranges::count(fields, field.name, &FieldSpec::name) == 1,
              "the samples have no field `", field.name, "`");
  }
  DTN_CHECK(!style_ || (condition_.size() == 1 && condition_.front().name == "style"),
            "the model reads no style");
}

std::vector<FieldSpec> OtherConditions::host_fields() const {
  std::vector<FieldSpec> fields = whole_->host_fields();
  if (style_) fields.push_back({"own_style", {}, DType::kInt64});
  return fields;
}

std::unique_ptr<SampleSource::Workspace> OtherConditions::make_workspace() const {
  auto workspace = std::make_unique<WorkspaceOfTwo>();
  workspace->own = whole_->make_workspace();
  if (style_) return workspace;
  for (const FieldSpec& field : whole_->host_fields()) {
    workspace->next[field.name] = allocate_rows(field, 1, kCpu);
  }
  return workspace;
}

void OtherConditions::make(std::int64_t index, const SampleKey& key, FieldRow& row,
                           SampleSource::Workspace& workspace) const {
  auto& ws = static_cast<WorkspaceOfTwo&>(workspace);
  whole_->make(index, key, row, *ws.own);
  if (!style_) return take_from_next(index, key, row, ws);
  std::int64_t& style = row.at<std::int64_t>("style")[0];
  row.at<std::int64_t>("own_style")[0] = std::exchange(style, *style_);
}

void OtherConditions::take_from_next(std::int64_t index, const SampleKey& key, FieldRow& row,
                                     WorkspaceOfTwo& ws) const {
  FieldRow other(ws.next, 0);
  for (std::int64_t next = (index + 1) % size();; next = (next + 1) % size()) {
    try {
      whole_->make(next, {key.seed, key.epoch, static_cast<std::uint64_t>(next)}, other, *ws.own);
      break;
    } catch (const DataError&) {
      if (next == index) throw;
    }
  }
  for (const FieldSpec& field : condition_) {
    field.dtype == DType::kInt64 ? copy_field<std::int64_t>(field.name, other, row)
                                 : copy_field<float>(field.name, other, row);
  }
}

}  // namespace dtn
