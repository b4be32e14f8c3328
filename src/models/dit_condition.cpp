#include "models/dit_condition.h"

#include "dtn/nn/initializers.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/gather.h"
#include "dtn/ops/primitive.h"
#include "ops/pointwise/timestep_features.h"

namespace dtn {
namespace {

constexpr std::int64_t kFrequencies = 128;
constexpr double kEmbeddingStd = 0.02;  // of the initial weights

// The row after the last class stands for no label. It exists only if training hides labels.
Parameter* make_label_table(const Scope& scope, const ModelConfig& c) {
  if (c.num_classes == 0) return nullptr;
  const std::int64_t rows = c.num_classes + (c.label_dropout > 0 ? 1 : 0);
  return scope.weight("weight", {rows, c.embed_dim}, normal_with(kEmbeddingStd));
}

}  // namespace

DitCondition::DitCondition(const Scope& scope, const ModelConfig& c)
    : time_in_(scope / "t_embedder" / "mlp" / 0, 2 * kFrequencies, c.embed_dim,
               {.init = normal_with(kEmbeddingStd)}),
      time_out_(scope / "t_embedder" / "mlp" / 2, c.embed_dim, c.embed_dim,
                {.init = normal_with(kEmbeddingStd)}),
      table_(make_label_table(scope / "y_embedder" / "embedding_table", c)) {}

DitCondition::Vectors DitCondition::vectors(Context& ctx, const Fields& fields) const {
  const Variable features(
      ops::timestep_features(fields.at("timestep"), kFrequencies, time_in_.w().dtype()));
  Vectors result;
  result.time = time_out_.forward(ctx, ops::silu(ctx, time_in_.forward(ctx, features)));
  if (!table_) return result;
  const Tensor &labels = fields.at("label"), &timesteps = fields.at("timestep");
  DTN_CHECK(labels.dtype() == DType::kInt64 && labels.shape() == timesteps.shape(), "labels are ",
            name_of(labels.dtype()), " ", to_string(labels.shape()), ", not int64 ",
            to_string(timesteps.shape()), " as the timesteps");
  result.label = ops::take_rows(ctx, table_->variable, labels);
  return result;
}

Variable DitCondition::sum(Context& ctx, const Vectors& v) {
  return v.label.defined() ? primitive::add(ctx, v.time, v.label) : v.time;
}

}  // namespace dtn
