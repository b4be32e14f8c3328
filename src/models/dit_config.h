// Configuration of diffusion transformers: the schema of the family, its checks and presets.
#pragma once

#include <optional>
#include <vector>

#include "dtn/config/schemas.h"

namespace dtn {

// True if the condition modulates the norms.
bool is_adaptive(const ModelConfig&);
// True if the condition also gates the branches.
bool has_gates(const ModelConfig&);
// True if the norms of the blocks have gains and shifts of their own.
bool has_affine_norms(const ModelConfig&);
// Number of blocks, from the first, that use norm.type.
int normalized_dit_blocks(const ModelConfig&);

// The check of the family.
std::optional<ConfigProblem> check_dit(const ModelConfig&, const NormSchema&);
ModelSchema dit_schema();

}  // namespace dtn
