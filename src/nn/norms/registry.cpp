#include <algorithm>
#include <cmath>

#include "nn/norms/rows.h"

namespace dtn {

TokenGrid square_or_sequence(std::int64_t tokens) {
  auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? TokenGrid{side, side} : TokenGrid{1, tokens};
}

const NormRegistry& norm_registry() {
  static const NormRegistry rows({
      layer_norm_row(),
      rms_norm_row(),
      batch_norm_row(),
      instance_norm_row(),
      group_norm_row(),
      switchable_norm_row(),
      scale_norm_row(),
      power_norm_row(),
      dtn_row(),
      // Layers for C++ programs, which no config can choose.
      adaptive_layer_norm_row(),
      conditional_instance_norm_row(),
      adaptive_instance_norm_row(),
      conditional_batch_norm_row(),
      spatially_adaptive_norm_row(),
      dynamic_layer_norm_row(),
      positional_norm_row(),
  });
  return rows;
}

std::span<const NormSchema> norm_schemas() {
  static const std::vector<NormSchema> schemas = norm_registry().schemas();
  return schemas;
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
  const NormRow& row = (scope.norms ? *scope.norms : norm_registry()).at(config.type);
  if (!row.schema.needs.empty()) {
    throw ConfigError(cat("'", config.type, "' needs ", row.schema.needs));
  }
  const NormConfig complete = with_defaults(config, row.schema);
  if (row.schema.check) {
    const NormSite site{shape.channels, shape.heads, shape.grid.height, shape.grid.width};
    if (const auto problem = row.schema.check(complete, site)) {
      throw ConfigError(cat(config.type, ": ", problem->option, problem->option.empty() ? "" : ": ",
                            problem->message));
    }
  }
  return row.make(complete, shape, scope);
}

}  // namespace dtn
