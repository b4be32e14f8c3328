// Pyramid vision transformers: PVT (Wang et al., Pyramid Vision Transformer, ICCV 2021) and PVTv2
// (Wang et al., PVT v2: Improved Baselines with Pyramid Vision Transformer, 2022). Parameter names
// are those of their release.
//
// A stage s = 1.. is a convolution and a LayerNorm, patch_embed{s}, then the blocks block{s}.{0..}.
// Their keys and values come from a map that is model.reduction times coarser. model.patch_size is
// the stride of the first stage; the others halve the grid.
//   PVT    the kernel equals the stride, and rows and columns that it does not divide are cut off;
//          positions pos_embed{s}; a class token, cls_token, joins at the last stage; one norm, at
//          the end
//   PVTv2  kernels overlap, with zeros around the grid, and a side of n becomes ceil(n / stride);
//          no positions and no class token; a depthwise convolution in the MLP; each stage ends
//          with norm{s}
#pragma once

#include <vector>

#include "dtn/models/staged.h"
#include "dtn/nn/conv_embed.h"

namespace dtn {

// The family "pvt".
class PyramidVisionTransformer final : public StagedTransformer {
 public:
  // Throws ConfigError if the configuration is invalid.
  PyramidVisionTransformer(const Scope&, const ModelConfig& config);

 private:
  Tokens enter(Context&, int stage, const Tokens&) const override;

  std::vector<ConvEmbed> embeds_;
  std::vector<Parameter*> positions_;
  Parameter* class_token_;
};

// The family "pvt_v2".
class PyramidVisionTransformerV2 final : public StagedTransformer {
 public:
  // Throws ConfigError if the configuration is invalid.
  PyramidVisionTransformerV2(const Scope&, const ModelConfig& config);

 private:
  Tokens enter(Context&, int stage, const Tokens&) const override;

  std::vector<ConvEmbed> embeds_;
};

}  // namespace dtn
