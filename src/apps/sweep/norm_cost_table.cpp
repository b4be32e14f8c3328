#include "apps/sweep/norm_cost_table.h"

#include "core/meta_device.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/nn/conditional_norm.h"
#include "dtn/nn/normalizer.h"

namespace dtn {
namespace {

struct NormCost {
  std::int64_t parameters = 0;
  KernelWork work;  // of a forward pass of one sample
};

NormCost cost_of_layer(const ModelConfig& model, const NormRegistry& norms) {
  const TokenGrid grid{model.grid_h(), model.grid_w()};
  ParameterStore store;
  NormShape shape{model.embed_dim, model.num_heads, model.eps, grid};
  shape.condition = condition_size(model);
  const auto layer = make_normalizer(model.norm, shape, {store, "norm", &norms});
  store.allocate(DType::kFloat32, kMeta);
  const Tensor x = Tensor::empty({1, grid.tokens(), model.embed_dim.at(0)}, DType::kFloat32, kMeta);
  Context ctx;
  if (shape.condition > 0) {
    const Tensor vectors = Tensor::empty({1, shape.condition}, DType::kFloat32, kMeta);
    ctx.condition = std::make_shared<const Condition>(Condition::of_vector(Variable(vectors)));
  }
  meta_queue().take_work();
  layer->forward(ctx, Variable(x, false), grid);
  return {store.count(), meta_queue().take_work()};
}

// LayerNorm and others have no product: their operations per element are not counted.
std::string work_text(double multiply_adds) {
  return multiply_adds > 0 ? count_text(multiply_adds) : "-";
}

}  // namespace

TableText norm_cost_table(const NormCosts& costs, const Registries& registries) {
  TableText table{{"normalizer", "parameters (paper)", "operations in the paper",
                   "multiply-adds with a dense P", "computed"},
                  {}};
  for (const NormCosts::Row& row : costs.rows) {
    const NormCost cost = cost_of_layer(row.model, registries.norms);
    table.rows.push_back({row.label, beside_paper(cat(cost.parameters), row.paper_parameters),
                          row.paper_operations.empty() ? "-" : row.paper_operations,
                          work_text(cost.work.paper_multiply_adds),
                          work_text(cost.work.multiply_adds)});
  }
  return table;
}

std::vector<std::string> norm_cost_notes(const NormCosts& costs) {
  const ModelConfig& model = costs.rows.front().model;
  std::vector<std::string> notes = {cat("One layer of ", model.preset, ": C = ", model.embed_dim,
                                        " channels, H = ", model.num_heads,
                                        " heads, T = ", model.num_patches(),
                                        " tokens, one image. -: no product; "
                                        "operations per element are not counted.")};
  notes.insert(notes.end(), costs.notes.begin(), costs.notes.end());
  return notes;
}

}  // namespace dtn
