#include <algorithm>
#include <cmath>

#include "dtn/ops/activation.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/modulation.h"
#include "nn/norms/entries.h"

namespace dtn {

Variable Normalizer::forward_relu(Context& ctx, const Variable& x, const TokenGrid& grid) {
  return ops::relu(ctx, forward(ctx, x, grid));
}

Variable Normalizer::forward_sum(Context& ctx, const Variable& residual, const Variable& branch,
                                 const Tensor& scale, const TokenGrid& grid, Variable& sum) {
  sum = ops::residual_add(ctx, residual, branch, scale);
  return forward(ctx, sum, grid);
}

Variable Normalizer::forward_modulated(Context& ctx, const Variable& x, const Variable& modulation,
                                       const TokenGrid& grid) {
  return ops::modulate_samples(ctx, forward(ctx, x, grid), modulation);
}

Variable Normalizer::forward_gated_modulated(Context& ctx, const Variable& residual,
                                             const Variable& gate, const Variable& branch,
                                             const Variable& modulation, const TokenGrid& grid,
                                             Variable& sum) {
  sum = ops::gated_add(ctx, residual, gate, branch);
  return forward_modulated(ctx, sum, modulation, grid);
}

TokenGrid square_or_sequence(std::int64_t tokens) {
  auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? TokenGrid{side, side} : TokenGrid{1, tokens};
}

const NormRegistry& norm_registry() {
  static const NormRegistry entries({
      layer_norm_entry(),
      rms_norm_entry(),
      batch_norm_entry(),
      instance_norm_entry(),
      group_norm_entry(),
      switchable_norm_entry(),
      scale_norm_entry(),
      power_norm_entry(),
      dtn_entry(),
      adaptive_layer_norm_entry(),
      dynamic_layer_norm_entry(),
      positional_norm_entry(),
      // For models with what NormSchema::needs says.
      no_norm_entry(),
      conditional_instance_norm_entry(),
      adaptive_instance_norm_entry(),
      mapped_instance_norm_entry(),
      conditional_batch_norm_entry(),
      spatially_adaptive_norm_entry(),
  });
  return entries;
}

namespace {

NormConfig with_defaults(NormConfig config, const NormSchema& schema) {
  for (const OptionSchema& option : schema.options) {
    const bool given = std::ranges::any_of(
        config.options, [&](const NormOption& o) { return o.key == option.key; });
    if (!given) config.options.push_back({option.key, option.default_value});
  }
  return config;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const NormConfig& config, const NormShape& shape,
                                            const Scope& scope) {
  const NormEntry& row = (scope.norms ? *scope.norms : norm_registry()).at(config.type);
  if (row.schema.needs.empty() && row.schema.reads_condition && shape.condition == 0) {
    throw ConfigError(cat("'", config.type,
                          "' takes gains and shifts from a condition, and the model has none; set "
                          "model.condition.from"));
  }
  const NormConfig complete = with_defaults(config, row.schema);
  if (row.schema.check) {
    const NormSite site{shape.channels, shape.heads, shape.grid.height, shape.grid.width};
    if (const auto problem = row.schema.check(complete, site)) {
      throw ConfigError(cat(config.type, ": ", problem->option, problem->option.empty() ? "" : ": ",
                            problem->message));
    }
  }
  NormShape site = shape;  // the config or the model can leave out weight and bias
  site.affine = shape.affine && config.affine.value_or(true);
  return row.make(complete, site, scope);
}

}  // namespace dtn
