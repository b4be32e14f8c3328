#include "models/unet/unet_condition.h"

#include "dtn/config/condition_field.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/convolution.h"
#include "dtn/ops/tokens.h"
#include "models/unet/unet_config.h"

namespace dtn {
namespace {

bool reads_image(const ModelConfig& c) { return c.condition.from == ConditionFrom::kImage; }

std::vector<TokenConv> make_style_encoder(const Scope& scope, const ModelConfig& c) {
  const std::int64_t width = c.embed_dim.at(0);
  const TokenConv::Options how{.kernel = 3, .stride = 2, .padding = 1, .init = ConvInit::kFanOut};
  std::vector<TokenConv> layers;
  layers.emplace_back(scope / 0, c.channels, width, how);
  layers.emplace_back(scope / 1, width, 2 * width, how);
  return layers;
}

std::vector<Linear> make_mapping(const Scope& scope, const ModelConfig& c) {
  std::vector<Linear> layers;
  layers.emplace_back(scope / 0, condition_size(c), c.condition.mapping);
  layers.emplace_back(scope / 1, c.condition.mapping, c.condition.mapping);
  return layers;
}

// Returns a field of the batch. Throws if it is missing, or of another type or shape.
const Tensor& field_of(const Fields& batch, const FieldSpec& field) {
  const Tensor* values = batch.find(field.name);
  if (!values) {
    throw ConfigError(cat("the model reads `", field.name, "` of each sample, and there is none"));
  }
  const bool is_map = field.row.rank() == 3;  // of any size
  const bool fits =
      is_map ? values->rank() == 4 && values->dim(1) == field.row[0]
             : values->shape() == shape_of(field, values->rank() > 0 ? values->dim(0) : 0);
  // Models with float64 weights may have float64 fields.
  const bool typed = values->dtype() == field.dtype ||
                     (field.dtype == DType::kFloat32 && values->dtype() == DType::kFloat64);
  DTN_CHECK(typed && fits, "`", field.name, "` is ", name_of(values->dtype()), " ",
            to_string(values->shape()), ", not ", name_of(field.dtype), " [batch, ...",
            to_string(field.row), "]");
  return *values;
}

}  // namespace

UNetCondition::UNetCondition(const Scope& scope, const ModelConfig& c)
    : config_(c), fields_(condition_fields(c)) {
  if (unet_reads_vector(c)) {
    if (reads_image(c)) {
      encoder_ = make_style_encoder(scope / "encoder", c);
      projection_.emplace(scope / "encoder" / "proj", std::int64_t{2} * c.embed_dim.at(0),
                          condition_size(c));
    } else {
      given_.emplace(scope, c);
    }
  }
  if (unet_uses(c, "adain_mlp")) mapping_ = make_mapping(scope / "mapping", c);
}

Variable UNetCondition::encoded(Context& ctx, const Tensor& images) const {
  Tokens x = image_as_tokens(ctx, images);
  for (const TokenConv& layer : encoder_) {
    x = layer.forward(ctx, x);
    x.x = ops::relu(ctx, x.x);
  }
  return projection_->forward(ctx, ops::mean_token(ctx, x.x));
}

Variable UNetCondition::vector_of(Context& ctx, const Fields& batch) const {
  if (given_) return given_->read(ctx, batch)->vector;
  return projection_ ? encoded(ctx, batch.at("style_image")) : Variable();
}

UNetCondition::Values UNetCondition::read(Context& ctx, const Fields& batch) const {
  Values values;
  for (const FieldSpec& field : fields_) {
    const Tensor& tensor = field_of(batch, field);
    if (field.name == "map") values.map = image_as_tokens(ctx, tensor);
    if (field.name == "style") values.style = Condition::of_index(tensor);
    if (field.name == "vector") values.style = Condition::of_vector(Variable(tensor));
    if (field.name == "style_image") values.style_image = tensor;
  }
  values.vector = vector_of(ctx, batch);
  Variable mapped = values.vector;
  for (const Linear& layer : mapping_) mapped = ops::relu(ctx, layer.forward(ctx, mapped));
  if (!mapping_.empty()) values.mapped = std::move(mapped);
  return values;
}

std::shared_ptr<const Condition> UNetCondition::at(Context& ctx, const Values& values,
                                                   const std::string& norm, int level,
                                                   const Variable& style_features) const {
  Condition condition;
  if (norm == "cin") {
    condition = values.style;
  } else if (norm == "adain") {
    condition = Condition::of_tokens(style_features);
  } else if (norm == "spade") {
    const Tokens& map = values.map;
    condition = Condition::of_tokens(
        level == 0 ? map.x
                   : ops::every_nth(ctx, map.x, map.grid.height, map.grid.width, 1 << level));
  } else if (norm == "adain_mlp") {
    condition = Condition::of_vector(values.mapped);
  } else if (norm == "cbn" || norm == "adaln") {
    condition = Condition::of_vector(values.vector);
  } else {
    return nullptr;
  }
  return std::make_shared<const Condition>(std::move(condition));
}

}  // namespace dtn
