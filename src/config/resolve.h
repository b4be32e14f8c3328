// From the merged tree to a checked ExperimentConfig.
#pragma once

#include <span>

#include "config/document.h"
#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

// `resample` is what data.resample means where the tree does not set it.
ExperimentConfig resolve(const Node& root, const ConfigSchemas& schemas, Resample resample);

// The options of the normalizer model.norm.type, defaults filled in.
void read_norm_options(const Node& root, std::span<const NormSchema> norms, ModelConfig& model);

// Throws when single values are fine but do not go together.
void check_combinations(const ExperimentConfig& config, const Node& root,
                        const ConfigSchemas& schemas);

}  // namespace dtn::config
