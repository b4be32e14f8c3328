// Swin (Liu et al., Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, ICCV
// 2021). Parameter names are those of its release.
//
// A convolution of patches and a LayerNorm, patch_embed, then stages layers.{0..}: blocks whose
// attention stays in windows of model.window x model.window tokens, in every second block shifted
// by half of that, and downsample, which halves the grid at the end of every stage but the last.
// Where a side of the grid is no longer than the window, the window is as long as that side and is
// not shifted. The mean of the last tokens, behind norm, goes to the head.
#pragma once

#include <vector>

#include "dtn/models/staged.h"
#include "dtn/nn/conv_embed.h"
#include "dtn/nn/patch_merging.h"

namespace dtn {

class SwinTransformer final : public StagedTransformer {
 public:
  // Throws ConfigError when the configuration makes no model.
  SwinTransformer(const Scope&, const ModelConfig& config);

 private:
  Tokens enter(Context&, int stage, const Tokens&) const override;

  ConvEmbed patch_embed_;
  std::vector<PatchMerging> downsamples_;
};

// The row of the registry, "swin".
ModelRow swin_row();

}  // namespace dtn
