// Configuration of each stage of a multi-stage model, and the checks that all multi-stage families
// share.
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
  int depth, first_block;                // blocks of this stage, and of all stages before
  TokenGrid grid;                        // of the tokens in its blocks
  std::string number() const { return std::to_string(index + 1); }
};

// Returns the stages in order, on these grids.
std::vector<StageConfig> stages_of(const ModelConfig&, const std::vector<TokenGrid>& grids);

// Returns the number of stages, from the first, whose blocks have norm.type: norm.layers, or
// `usual` if norm.layers is unset.
int normalized_stages(const ModelConfig&, int usual);

// Returns one norm site for each of those stages. All norms in the stage's blocks have that site.
std::vector<NormSite> norm_sites_of(const ModelConfig&, const std::vector<StageConfig>&, int usual);

// Returns the sizes, norms and drop path of a block, which is counted from the first of its stage.
// The family chooses the kinds of attention and MLP. The eps of norm.type is norm_eps_of().
BlockOptions block_options(const Scope&, const ModelConfig&, const StageConfig&, int block,
                           int usual);

// Returns `more` and the keys of the section `model` that vision transformers of any family read.
std::vector<std::string> transformer_keys(std::vector<std::string> more);

// Returns the values that the presets of the multi-stage transformers share.
ModelConfig staged_preset(const char* name, const char* family);

// Returns a problem for heads, widths and norms that no model can have, and for grids with no token
// or too many.
std::optional<ConfigProblem> stage_problem(const ModelConfig&, const std::vector<StageConfig>&);

}  // namespace dtn
