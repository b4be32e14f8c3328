// The architecture of a vision transformer.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "dtn/config/norm_config.h"

namespace dtn {

enum class PosEmbed { kPatch, kAll };  // positions for the patches only, or for the class token too
enum class Pooling { kCls, kMean };

// Filled from a preset (see model_presets()), then from the config's own keys.
struct ModelConfig {
  std::string preset;
  std::string family = "vit";  // of the preset: see model_registry()
  int image_size = 224;
  int patch_size = 16;
  int channels = 3;  // of the image
  int num_classes = 1000;
  int embed_dim = 192;  // C
  int depth = 12;
  int num_heads = 3;  // H
  double mlp_ratio = 4;
  bool qkv_bias = false;
  int class_token_at = 10;  // the class token joins before this block (0: before the first)
  PosEmbed pos_embed = PosEmbed::kPatch;
  Pooling pool = Pooling::kCls;
  double drop_path = 0;  // of the last block; grows linearly from 0 at the first
  double dropout = 0;    // after positions, attention projection and both MLP layers
  double eps = 1e-5;
  // A positional bias (Eq. 6 of the paper) in the attention of the blocks that see the grid alone,
  // with weights of its own, blocks.N.attn.pos_proj.weight.
  bool mhsa_position = false;
  NormConfig norm;
  std::optional<std::string> init_weights;  // safetensors to start from

  int grid() const { return image_size / patch_size; }  // patches per side
  int num_patches() const { return grid() * grid(); }
  int mlp_dim() const { return static_cast<int>(embed_dim * mlp_ratio); }
  bool has_class_token() const { return pool == Pooling::kCls; }
  // The first blocks, up to where the class token joins: their tokens are a grid.
  int grid_blocks() const {
    if (!has_class_token()) return depth;
    return pos_embed == PosEmbed::kAll ? 0 : std::min(class_token_at, depth);
  }
  // Blocks that use norm.type; the rest use LayerNorm.
  int norm_layers() const {
    return norm.layers.value_or(has_class_token() ? class_token_at : depth);
  }
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace dtn
