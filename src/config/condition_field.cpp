#include "dtn/config/condition_field.h"

#include "dtn/core/check.h"

namespace dtn {

namespace {

bool uses(const ModelConfig& model, const char* norm) {
  return model.norm.type == norm || (model.decoder_norm && model.decoder_norm->type == norm);
}

Shape image_shape(const ModelConfig& model, std::int64_t channels) {
  return {channels, model.image_size.height, model.image_size.width};
}

}  // namespace

std::optional<FieldSpec> condition_field(const ModelConfig& model) {
  if (!model.condition.from) return std::nullopt;
  switch (*model.condition.from) {
    case ConditionFrom::kIndex: return FieldSpec{"style", {}, DType::kInt64};
    case ConditionFrom::kImage:
      return FieldSpec{"style_image", image_shape(model, model.channels), DType::kFloat32};
    case ConditionFrom::kVector: break;
  }
  const std::int64_t length =
      uses(model, "cin") ? model.condition.styles.value_or(0) : condition_size(model);
  return FieldSpec{"vector", {length}, DType::kFloat32};
}

std::vector<FieldSpec> condition_fields(const ModelConfig& model) {
  std::vector<FieldSpec> fields;
  if (auto field = condition_field(model)) fields.push_back(std::move(*field));
  if (uses(model, "spade")) {
    fields.push_back({"map", image_shape(model, model.condition.size.value_or(0))});
  }
  return fields;
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
