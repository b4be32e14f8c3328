// Converts the merged tree to a checked ExperimentConfig.
#pragma once

#include <span>

#include "config/document.h"
#include "dtn/config/schemas.h"
#include "dtn/config/train_config.h"

namespace dtn::config {

// `resample` is the value of data.resample if the tree does not set it.
ExperimentConfig resolve(const Node& root, const ConfigSchemas& schemas, Resample resample);

// Reads the options of the normalizer model.norm.type, and fills in defaults.
void read_norm_options(const Node& root, std::span<const NormSchema> norms, ModelConfig& model);

// Throws an error if values that are valid individually are incompatible.
void check_combinations(const ExperimentConfig& config, const Node& root,
                        const ConfigSchemas& schemas);

}  // namespace dtn::config
