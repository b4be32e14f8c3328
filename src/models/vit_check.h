// The config keys that vision transformers read, and the check of their values.
#pragma once

#include "dtn/config/schemas.h"

namespace dtn {

std::optional<ConfigProblem> check_vit(const ModelConfig&, const NormSchema&);
ModelSchema vit_schema();

}  // namespace dtn
