// The field of the data that a model reads as its condition (model.condition.from).
#pragma once

#include <optional>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"

namespace dtn {

// `style` [] int64, from 0 to model.condition.styles - 1, or `vector` [K] float32. Unset: none.
std::optional<FieldSpec> condition_field(const ModelConfig& model);

// The length K of the condition's vectors: model.condition.size, or model.embed_dim if that is
// unset. 0 without a condition.
std::int64_t condition_size(const ModelConfig& model);

// Throws DataError, naming the field, the value and `owner`, if a style is outside the range.
void check_style_range(const Tensor& styles, const ModelConfig& model, const std::string& owner);

}  // namespace dtn
