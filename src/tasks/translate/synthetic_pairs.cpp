#include "tasks/translate/synthetic_pairs.h"

#include <algorithm>

#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/core/philox.h"

namespace dtn {
namespace {

constexpr std::uint32_t kPairStream = 0x7A150021u;
constexpr std::int64_t kTrainSize = 1024, kValSize = 256;

}  // namespace

SyntheticPairs::SyntheticPairs(const ExperimentConfig& config, Split split)
    : size_(config.data.size.value_or(split == Split::kTrain ? kTrainSize : kValSize)),
      seed_(config.seed),
      split_(static_cast<std::uint32_t>(split)),
      model_(config.model) {
  if (size_ < 1) throw ConfigError(cat("data.size must be at least 1, got ", size_));
  description_ = cat(size_, " synthetic ", name_of(split), " pairs of ", model_.image_size);
}

std::vector<FieldSpec> SyntheticPairs::host_fields() const {
  const std::int64_t height = model_.image_size.height, width = model_.image_size.width;
  std::vector<FieldSpec> fields{
      {"input", {model_.channels, height, width}, DType::kFloat32},
      {"target", {model_.out_channels.value_or(model_.channels), height, width}, DType::kFloat32}};
  for (FieldSpec& field : condition_fields(model_)) fields.push_back(std::move(field));
  return fields;
}

void SyntheticPairs::make(std::int64_t index, const SampleKey&, FieldRow& row,
                          SampleSource::Workspace&) const {
  std::uint32_t field = 0;
  for (const FieldSpec& spec : host_fields()) {
    if (spec.dtype == DType::kInt64) {
      const std::int64_t styles = std::max<std::int64_t>(1, model_.condition.styles.value_or(1));
      row.at<std::int64_t>(spec.name)[0] = index % styles;
      continue;
    }
    const PhiloxKey key{seed_, kPairStream + field++, split_};
    const std::span<float> values = row.at<float>(spec.name);
    const std::uint64_t first = static_cast<std::uint64_t>(index) * values.size();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = philox_uniform(key, first + i);
  }
}

}  // namespace dtn
