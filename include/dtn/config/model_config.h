// The architecture of a model.
#pragma once

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>

#include "dtn/config/norm_config.h"
#include "dtn/config/per_stage.h"

namespace dtn {

enum class PosEmbed { kPatch, kAll };  // positions for the patches only, or for all tokens
// How learned positions are brought to another grid: bicubic with a = -0.75 and clamped borders, or
// as timm does it with a = -0.5, antialiased, without what lies outside; or bilinear as in PVT.
enum class PosResize { kBicubic, kBicubicAntialias, kBilinear };
enum class DropPathMode { kLinear, kConstant };  // from 0 at the first block up, or the same in all
enum class InitHead { kKeep, kReset };
enum class Pooling { kCls, kMean };  // the head sees the class token, or the patches' mean
// gelu_tanh is GELU's approximation by tanh; quick_gelu is x sigmoid(1.702 x).
enum class MlpActivation { kGelu, kGeluTanh, kQuickGelu, kSilu };
// fc2(act(fc1 x)), or fc2(act(g) u) of the halves (g, u) of fc1 x, which is SwiGLU (Shazeer, 2020)
// where act is silu.
enum class MlpKind { kPlain, kSwigluPacked };

// How the tokens of a sequence see each other: all all, in blocks (BigBird), or by a hash (Reformer).
enum class SequenceAttentionKind { kDense, kBigBird, kReformer };
// Of the sparse kinds: as their papers have it, or as the Long-Range Arena's code does.
enum class SequenceVariant { kClean, kLra };

// The attention of models of sequences.
struct SequenceAttentionConfig {
  SequenceAttentionKind kind = SequenceAttentionKind::kDense;  // of the preset
  SequenceVariant variant = SequenceVariant::kClean;
  int block_size = 64;    // BigBird: tokens of a block
  int random_blocks = 3;  // that a row of blocks sees beside its neighbours and the ends
  int hashes = 1;         // Reformer: rounds
  int buckets = 10;       // and chunks of a round
  double dropout = 0;     // of the weights, where they are dense
  bool operator==(const SequenceAttentionConfig&) const = default;
};

// Pixels of the images that a model sees; written as one number where both are equal.
struct ImageSize {
  int height = 224, width = 224;

  ImageSize() = default;
  ImageSize(int side) : height(side), width(side) {}
  ImageSize(int h, int w) : height(h), width(w) {}
  bool operator==(const ImageSize&) const = default;
};
// 224 x 224
inline std::ostream& operator<<(std::ostream& out, const ImageSize& size) {
  return out << size.height << " x " << size.width;
}

// Filled from a preset (see model_presets()), then from the config's own keys. Of the keys that
// describe single parts a family of models reads those that it has a use for.
struct ModelConfig {
  std::string preset;
  std::string family = "vit";  // of the preset: see model_registry()
  ImageSize image_size;
  int patch_size = 16;            // of models of several stages: the first stride
  int channels = 3;               // of the image
  int num_classes = 1000;         // 0: no head, the outputs are the features that it would see
  PerStage<int> embed_dim = 192;  // C
  PerStage<int> depth = 12;
  PerStage<int> num_heads = 3;  // H
  PerStage<double> mlp_ratio = 4;
  // By how much keys and values are fewer than the queries along each side of the grid; unset: the
  // family has no such thing.
  std::optional<PerStage<int>> reduction;
  std::optional<int> window;  // side of the windows that attention stays in; unset likewise
  MlpKind mlp = MlpKind::kPlain;
  MlpActivation act = MlpActivation::kGelu;
  bool qkv_bias = false;
  bool qk_norm = false;             // LayerNorm of each head's queries and keys
  std::optional<bool> class_token;  // unset: with cls pooling
  bool distilled = false;  // a second token, with a head of its own (DeiT); logits are averaged
  int registers = 0;       // tokens that only other tokens read (Darcet et al., ICLR 2024)
  // The prefix (class token, distillation token, registers) joins before this block (0: before the
  // first).
  int class_token_at = 10;
  PosEmbed pos_embed = PosEmbed::kPatch;
  PosResize pos_resize = PosResize::kBicubic;
  Pooling pool = Pooling::kCls;
  std::optional<bool> patch_bias;     // of the patch convolution; unset: unless norm_pre
  bool norm_pre = false;              // LayerNorm of all tokens ahead of the blocks
  bool fc_norm = false;               // the last LayerNorm comes behind the pooling
  std::optional<double> layer_scale;  // gains of the branches start here; unset: no gains
  double drop_path = 0;               // of the last block
  DropPathMode drop_path_mode = DropPathMode::kLinear;
  double dropout = 0;  // after positions, attention projection and both MLP layers
  double eps = 1e-5;
  // A positional bias (Eq. 6 of the paper) in the attention of the blocks that see the grid alone,
  // with weights of its own, blocks.N.attn.pos_proj.weight.
  bool mhsa_position = false;
  NormConfig norm;
  // Of models of sequences, which see no images.
  int max_length = 0;  // tokens, the class token not counted
  int vocabulary = 0;  // 0, which pads, counts
  SequenceAttentionConfig attention{};
  PerStage<std::int64_t> norm_pool = 1;     // the option `pool` of the norm, where nobody sets it
  std::optional<std::string> init_weights;  // a file or folder to start from: see find_weights()
  InitHead init_head = InitHead::kKeep;     // the head of those, or a new one
  // Images that the model of loaded weights was made for, if their file does not say (GridKeys).
  std::optional<ImageSize> init_image_size;

  // The length of `depth`; where that is one number for all stages, the longest list of the others.
  int stages() const;
  int blocks() const;                    // of all stages
  double drop_path_of(int block) const;  // counted through all stages

  // Of vision transformers, which have one stage.
  int grid_h() const { return image_size.height / patch_size; }
  int grid_w() const { return image_size.width / patch_size; }
  int num_patches() const { return grid_h() * grid_w(); }
  // Channels behind fc1, of which the halves of swiglu_packed are two.
  int mlp_dim() const { return static_cast<int>(embed_dim * mlp_ratio); }
  bool has_class_token() const { return class_token.value_or(pool == Pooling::kCls); }
  bool has_patch_bias() const { return patch_bias.value_or(!norm_pre); }
  int prefix_tokens() const { return has_class_token() + distilled + registers; }
  // The first blocks, up to where the prefix joins: their tokens are a grid.
  int grid_blocks() const {
    if (prefix_tokens() == 0) return depth;
    return pos_embed == PosEmbed::kAll ? 0 : std::min<int>(class_token_at, depth);
  }
  // Blocks that use norm.type; the rest use LayerNorm.
  int norm_layers() const {
    const bool grid_alone = prefix_tokens() > 0 && !norm.takes_prefix();
    return norm.layers.value_or(grid_alone ? class_token_at : static_cast<int>(depth));
  }
  bool operator==(const ModelConfig&) const = default;
};

}  // namespace dtn
