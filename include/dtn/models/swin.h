// Swin (Liu et al., Swin Transformer: Hierarchical Vision Transformer using Shifted Windows, ICCV
// 2021). Parameter names are those of its release.
//
// A patch convolution and a LayerNorm, patch_embed, then stages layers.{0..}. The attention of the
// blocks stays in windows of model.window x model.window tokens, which are shifted by half a window
// in every second block. `downsample` halves the grid at the end of every stage but the last. If a
// side of the grid is no longer than the window, the window has the length of that side and is not
// shifted. The head reads the mean of the last tokens after `norm`.
#pragma once

#include <vector>

#include "dtn/models/staged.h"
#include "dtn/nn/conv_embed.h"
#include "dtn/nn/patch_merging.h"

namespace dtn {

class SwinTransformer final : public StagedTransformer {
 public:
  // Throws ConfigError if the configuration is invalid.
  SwinTransformer(const Scope&, const ModelConfig& config);

 private:
  Tokens enter(Context&, int stage, const Tokens&) const override;

  ConvEmbed patch_embed_;
  std::vector<PatchMerging> downsamples_;
};

}  // namespace dtn
