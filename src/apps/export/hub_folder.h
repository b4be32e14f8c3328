// Folders of the Hugging Face hub: model.safetensors and a config.json that timm reads.
#pragma once

#include <string>
#include <vector>

#include "data/sample/normalization.h"
#include "dtn/config/train_config.h"
#include "dtn/data/dataset_registry.h"

namespace dtn::app {

// The normalization of pixels in [0, 1] before the model, for programs that read the export. Zeros
// and ones for data.dataset tensors, which come prepared.
Normalization exported_normalization(const ExperimentConfig& config,
                                     const DatasetRegistry& datasets);

// The config.json of a model in timm's format: a vision transformer of timm, with every argument in
// which it may differ. `names` are those of its classes; empty: unknown. Throws ConfigError with
// the reason if timm has no such model.
std::string hub_config(const ExperimentConfig& config, const std::vector<std::string>& names,
                       const DatasetRegistry& datasets);

}  // namespace dtn::app
