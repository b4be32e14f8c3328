// What a configuration says of each stage of a model that has several, and what may be wrong with
// it in all families of such models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtn/config/schemas.h"
#include "dtn/nn/block.h"

namespace dtn {

struct StageConfig {
  int index = 0;                         // from 0
  std::int64_t channels, heads, hidden;  // C, H and the width inside the MLP
  int depth, first_block;                // blocks here, and in the stages before
  TokenGrid grid;                        // of the tokens in its blocks
  std::string number() const { return std::to_string(index + 1); }
};

// Stages on these grids, the first first.
std::vector<StageConfig> stages_of(const ModelConfig&, const std::vector<TokenGrid>& grids);

// Stages, from the first, whose blocks have norm.type: norm.layers, or `usual` where that is unset.
int normalized_stages(const ModelConfig&, int usual);

// The norms of those stages: two in each block, at the same site.
std::vector<NormSite> norm_sites_of(const ModelConfig&, const std::vector<StageConfig>&, int usual);

// Norms and drop path of a block, counted from the stage's first; attention and MLP are the
// family's business. DTN has an eps of its own, whatever the LayerNorms of the model have.
BlockOptions block_options(const Scope&, const ModelConfig&, const StageConfig&, int block,
                           int usual);

// What keys of the section `model` mean nothing for any of these families.
std::vector<std::string> unused_in_stages(std::vector<std::string> more);

// Heads, widths and norms that no model can have; grids with no token or too many.
std::optional<ModelProblem> stage_problem(const ModelConfig&, const std::vector<StageConfig>&);

}  // namespace dtn
