#include "models/data_condition.h"

#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/nn/initializers.h"
#include "dtn/ops/gather.h"

namespace dtn {
namespace {

Parameter* make_table(const Scope& scope, const ModelConfig& c) {
  if (c.condition.from != ConditionFrom::kIndex) return nullptr;
  constexpr double kStd = 1;
  return scope.weight("weight", {c.condition.styles.value_or(0), condition_size(c)},
                      normal_with(kStd), Decay::kYes);
}

}  // namespace

DataCondition::DataCondition(const Scope& scope, const ModelConfig& config)
    : field_(condition_field(config)), table_(make_table(scope / "table", config)) {}

std::shared_ptr<const Condition> DataCondition::read(Context& ctx, const Fields& fields) const {
  if (!field_) return nullptr;
  const Tensor* values = fields.find(field_->name);
  if (!values) {
    throw ConfigError(cat("the model reads `", field_->name,
                          "` of each sample (model.condition.from), and this program gives it "
                          "none; dtn-train, dtn-eval without --task, and dtn-predict --style do"));
  }
  const bool typed = values->dtype() == field_->dtype ||
                     (!table_ && values->dtype() == DType::kFloat64);  // for float64 weights
  DTN_CHECK(typed && values->shape() == shape_of(*field_, fields.count()), "`", field_->name,
            "` is ", name_of(values->dtype()), " ", to_string(values->shape()), ", not ",
            name_of(field_->dtype), " ", to_string(shape_of(*field_, fields.count())));
  const Variable vectors =
      table_ ? ops::take_rows(ctx, table_->variable, *values) : Variable(*values);
  return std::make_shared<const Condition>(Condition::of_vector(vectors));
}

}  // namespace dtn
