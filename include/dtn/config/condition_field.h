// The fields of the data that a model reads as its condition (model.condition.from).
#pragma once

#include <optional>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"

namespace dtn {

// `style` [] int64, from 0 to model.condition.styles - 1; `vector` [K] float32, or [styles] for the
// normalizer cin; or `style_image` [channels, H, W] float32. Unset: none.
std::optional<FieldSpec> condition_field(const ModelConfig& model);
// The same, and `map` [K, H, W] float32 for the normalizer spade.
std::vector<FieldSpec> condition_fields(const ModelConfig& model);

// The length K of the condition's vectors: model.condition.size, or model.embed_dim if that is
// unset. 0 without a condition.
std::int64_t condition_size(const ModelConfig& model);

// Throws DataError, naming the field, the value and `owner`, if a style is outside the range.
void check_style_range(const Tensor& styles, const ModelConfig& model, const std::string& owner);

}  // namespace dtn
