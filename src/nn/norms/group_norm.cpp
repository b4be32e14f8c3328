// GroupNorm (Wu and He, "Group normalization", 2018): normalizes groups of consecutive channels of
// a sample over its tokens.
#include "nn/norms/entries.h"
#include "nn/norms/groups.h"
#include "nn/norms/sample_norm.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_group(const NormConfig& config, const NormShape& shape,
                                       const Scope& scope) {
  return std::make_unique<SampleNorm>("group_norm", groups_of(config, shape.heads), false, shape,
                                      scope);
}

}  // namespace

NormEntry group_norm_entry() {
  return {
      {.type = "gn",
       .doc = "GroupNorm: mean and variance of each group of channels of a sample over its tokens",
       .options = {groups_option(
           "number of groups of channels: heads (as many as attention heads), or a number "
           "that divides the channels C; 1 is LayerNorm over the whole sample")},
       .check = check_groups},
      make_group};
}

}  // namespace dtn
