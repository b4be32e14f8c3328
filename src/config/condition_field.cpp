#include "dtn/config/condition_field.h"

#include "dtn/core/check.h"

namespace dtn {

std::optional<FieldSpec> condition_field(const ModelConfig& model) {
  if (!model.condition.from) return std::nullopt;
  if (*model.condition.from == ConditionFrom::kIndex) {
    return FieldSpec{"style", {}, DType::kInt64};
  }
  return FieldSpec{"vector", {condition_size(model)}, DType::kFloat32};
}

std::int64_t condition_size(const ModelConfig& model) {
  if (!model.condition.from) return 0;
  return model.condition.size.value_or(model.embed_dim.at(0));
}

void check_style_range(const Tensor& styles, const ModelConfig& model, const std::string& owner) {
  const std::int64_t end = model.condition.styles.value_or(0);
  std::int64_t index = 0;
  for (const std::int64_t style : styles.values<std::int64_t>()) {
    if (style < 0 || style >= end) {
      throw DataError(cat(owner, ": `style` ", style, " at index ", index, " is outside [0, ", end,
                          "), the range of model.condition.styles"));
    }
    ++index;
  }
}

}  // namespace dtn
