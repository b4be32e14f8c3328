#include <algorithm>
#include <cmath>

#include "nn/norms/entries.h"

namespace dtn {

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
      // Layers for C++ programs, which no config can choose.
      adaptive_layer_norm_entry(),
      conditional_instance_norm_entry(),
      adaptive_instance_norm_entry(),
      conditional_batch_norm_entry(),
      spatially_adaptive_norm_entry(),
      dynamic_layer_norm_entry(),
      positional_norm_entry(),
  });
  return entries;
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
  const NormEntry& row = (scope.norms ? *scope.norms : norm_registry()).at(config.type);
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
