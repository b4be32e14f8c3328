// The registries whose rows a config of an experiment may choose from.
#pragma once

#include "dtn/config/schemas.h"
#include "dtn/data/dataset_registry.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

inline ConfigSchemas config_schemas() { return {norm_schemas(), dataset_schemas()}; }

}  // namespace dtn
