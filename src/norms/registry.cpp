#include <cmath>

#include "norms/rows.h"

namespace dtn {

TokenGrid square_or_sequence(std::int64_t tokens) {
  auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(tokens))));
  return side * side == tokens ? TokenGrid{side, side} : TokenGrid{1, tokens};
}

std::span<const NormRow> norm_registry() {
  static const std::vector<NormRow> rows = {
      layer_norm_row(),
      rms_norm_row(),
      batch_norm_row(),
      instance_norm_row(),
      group_norm_row(),
      switchable_norm_row(),
      scale_norm_row(),
      power_norm_row(),
      dtn_row(),
      // Layers for programs, with a condition.
      adaptive_layer_norm_row(),
      conditional_instance_norm_row(),
      adaptive_instance_norm_row(),
      conditional_batch_norm_row(),
      spatially_adaptive_norm_row(),
      dynamic_layer_norm_row(),
      positional_norm_row(),
  };
  return rows;
}

std::span<const NormSchema> norm_schemas() {
  static const std::vector<NormSchema> schemas = [] {
    std::vector<NormSchema> all;
    for (const NormRow& row : norm_registry()) all.push_back(row.schema);
    return all;
  }();
  return schemas;
}

std::unique_ptr<Normalizer> make_normalizer(const NormConfig& config, const NormShape& shape,
                                            ParameterStore& store, const std::string& prefix) {
  std::string known;
  for (const NormRow& row : norm_registry()) {
    if (row.schema.type == config.type) {
      if (!row.schema.needs.empty()) {
        throw ConfigError(cat("'", config.type, "' needs ", row.schema.needs));
      }
      NormConfig complete = config;
      for (const OptionSchema& option : row.schema.options) {
        bool given = false;
        for (const NormOption& o : config.options) given |= o.key == option.key;
        if (!given) complete.options.push_back({option.key, option.default_value});
      }
      if (row.schema.check) {
        auto problem = row.schema.check(
            complete, {shape.channels, shape.heads, shape.grid.height, shape.grid.width});
        if (problem) {
          throw ConfigError(cat(config.type, ": ", problem->option,
                                problem->option.empty() ? "" : ": ", problem->message));
        }
      }
      return row.make(complete, shape, store, prefix);
    }
    known += (known.empty() ? "" : ", ") + row.schema.type;
  }
  throw ConfigError(cat("unknown normalizer '", config.type, "'; known: ", known));
}

}  // namespace dtn
