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
// Resizing of learned positions to another grid. kBicubic: a = -0.75, clamped borders.
// kBicubicAntialias: as in timm, a = -0.5, antialiased, without values outside the grid. kBilinear:
// as in PVT.
enum class PosResize { kBicubic, kBicubicAntialias, kBilinear };
enum class DropPathMode { kLinear, kConstant };  // increasing from 0 at the first block, or equal
// The head after loading weights: the head of the file, or a new one.
enum class InitHead { kKeep, kReset };
enum class Pooling { kCls, kMean };  // the head reads the class token, or the mean of the patches
// gelu_tanh is GELU's approximation by tanh; quick_gelu is x sigmoid(1.702 x).
enum class MlpActivation { kGelu, kGeluTanh, kQuickGelu, kSilu, kRelu };
// fc2(act(fc1 x)), or fc2(act(g) u) with the halves (g, u) of fc1 x. The latter is SwiGLU (Shazeer,
// 2020) if act is silu.
enum class MlpKind { kPlain, kSwigluPacked };

// Attention between the tokens of a sequence: all to all, in blocks (BigBird), or by hash
// (Reformer).
enum class SequenceAttentionKind { kDense, kBigBird, kReformer };
// Sparse attention as in its paper, or as in the Long-Range Arena's code.
enum class SequenceVariant { kClean, kLra };

// The attention of sequence models.
struct SequenceAttentionConfig {
  SequenceAttentionKind kind = SequenceAttentionKind::kDense;  // of the preset
  SequenceVariant variant = SequenceVariant::kClean;
  int block_size = 64;    // BigBird: tokens of a block
  int random_blocks = 3;  // BigBird: random blocks seen by a block, besides neighbours and ends
  int hashes = 1;         // Reformer: rounds
  int buckets = 10;       // Reformer: buckets, and chunks, of a round
  double dropout = 0;     // dense: of the attention weights
  bool operator==(const SequenceAttentionConfig&) const = default;
};

// Ways of a condition, such as noise level and class, into the blocks of a diffusion transformer
// (Peebles and Xie, "Scalable diffusion models with transformers", ICCV 2023). kAdalnZero:
// adaptive norms, and gates on the branches that start at 0. kAdaln: adaptive norms alone.
enum class ConditionInto { kAdalnZero, kAdaln, kInContext, kCrossAttention };
// Field of the data that conditional norms read: `vector` [K]; `style`, an index; or
// `style_image`, an image.
enum class ConditionFrom { kVector, kIndex, kImage };

// The condition of a model.
struct ConditionConfig {
  ConditionInto into = ConditionInto::kAdalnZero;
  std::optional<ConditionFrom> from{};   // unset: the model reads no condition from the data
  std::optional<std::int64_t> size{};    // K: length of the condition vector
  std::optional<std::int64_t> styles{};  // S: number of indices
  int mapping = 64;                      // M: width of the network between condition and adain_mlp
  bool operator==(const ConditionConfig&) const = default;
};

// Shortcuts that the decoder of an encoder-decoder has to the encoder at each resolution: none; its
// features; or their moments over the channels, applied as they are or by a small network
// (dtn/nn/moments.h).
enum class FeatureShortcut { kNone, kConcat, kMoments, kDynamicMoments };

// A detector on the features of a backbone's stages: RetinaNet (Lin et al., ICCV 2017), or Mask
// R-CNN (He et al., ICCV 2017), which also predicts masks.
enum class DetectorKind { kRetinaNet, kMaskRcnn };
struct DetectorConfig {
  std::optional<DetectorKind> kind{};  // unset: the model is not a detector
  int fpn_channels = 256;              // of each level of the feature pyramid
  int head_convs = 4;                  // RetinaNet's heads, and Mask R-CNN's mask head
  int head_fc = 1024;                  // Mask R-CNN: hidden width of the box head
  int rpn_samples = 256;               // Mask R-CNN: anchors of an image in the proposals' loss
  int roi_samples = 512;               // Mask R-CNN: regions of an image that train the heads
  bool operator==(const DetectorConfig&) const = default;
};

// Size of the model's input images in pixels; written as one number if both are equal.
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

// The section `model` of a config: filled from a preset (see PresetSchema), then from the config's
// keys. A model family reads only the keys that it uses.
struct ModelConfig {
  std::string preset;
  std::string family = "vit";  // of the preset: see model_registry()
  ImageSize image_size{};
  int patch_size = 16;            // first stride in models with several stages
  int channels = 3;               // of the image
  int num_classes = 1000;         // 0: no head; the outputs are the features before it
  PerStage<int> embed_dim = 192;  // C
  PerStage<int> depth = 12;
  PerStage<int> num_heads = 3;  // H
  PerStage<double> mlp_ratio = 4;
  // Ratio of the query grid to the key and value grid along each side; unset: the family has no
  // reduction.
  std::optional<PerStage<int>> reduction{};
  std::optional<int> window{};  // side of the attention windows; unset: the family has none
  MlpKind mlp = MlpKind::kPlain;
  MlpActivation act = MlpActivation::kGelu;
  bool qkv_bias = false;
  bool qk_norm = false;               // LayerNorm of each head's queries and keys
  std::optional<bool> class_token{};  // unset: true with cls pooling
  bool distilled = false;  // a second token with a second head (DeiT); the logits are averaged
  int registers = 0;       // extra tokens that the head does not read (Darcet et al., ICLR 2024)
  // The prefix (class token, distillation token, registers) joins before this block (0: before the
  // first).
  int class_token_at = 10;
  PosEmbed pos_embed = PosEmbed::kPatch;
  PosResize pos_resize = PosResize::kBicubic;
  Pooling pool = Pooling::kCls;
  std::optional<bool> patch_bias{};     // of the patch convolution; unset: !norm_pre
  bool norm_pre = false;                // LayerNorm of all tokens before the first block
  bool fc_norm = false;                 // the last LayerNorm follows the pooling
  std::optional<double> layer_scale{};  // initial gains of the branches; unset: no gains
  double drop_path = 0;                 // of the last block
  DropPathMode drop_path_mode = DropPathMode::kLinear;
  double dropout = 0;  // after positions, attention projection and both MLP layers
  double eps = 1e-5;
  // Positional bias (Eq. 6 of the paper) in the attention of the blocks that see only the grid,
  // with weights blocks.N.attn.pos_proj.weight.
  bool mhsa_position = false;
  NormConfig norm{};
  ConditionConfig condition{};
  // For image-to-image models, whose encoder uses `norm`.
  std::optional<NormConfig> decoder_norm{};  // unset: `norm`
  std::optional<int> out_channels{};         // of the output image; unset: `channels`
  int bottleneck = 0;                        // residual blocks between encoder and decoder
  FeatureShortcut shortcut = FeatureShortcut::kConcat;
  std::optional<int> shortcut_hidden{};  // channels between moments and gains; unset: embed_dim[0]
  std::optional<bool> pono{};            // positional normalization; unset: with moments
  bool residual = false;                 // the output is added to the input
  DetectorConfig detector{};
  bool learn_sigma = false;  // diffusion: the model also predicts the variance of each step
  double label_dropout = 0;  // diffusion: probability that training hides a label
  // For sequence models, which have no images.
  int max_length = 0;  // tokens, without the class token
  int vocabulary = 0;  // includes 0, the pad
  SequenceAttentionConfig attention{};
  PerStage<std::int64_t> norm_pool = 1;       // default of the norm's option `pool`
  std::optional<std::string> init_weights{};  // a file, folder or public model to start from
  InitHead init_head = InitHead::kKeep;       // their head, or a new one
  // Image size of the model that loaded weights come from, if their file does not say (GridKeys).
  std::optional<ImageSize> init_image_size{};

  // The length of `depth`. If that is one number for all stages, the longest of the other lists.
  int stages() const;
  int blocks() const;                    // of all stages
  double drop_path_of(int block) const;  // block counted through all stages

  // Rows of patches. This and the rest are for vision transformers, which have one stage.
  int grid_h() const { return image_size.height / patch_size; }
  int grid_w() const { return image_size.width / patch_size; }
  int num_patches() const { return grid_h() * grid_w(); }
  // Output channels of fc1; swiglu_packed splits them into two halves.
  int mlp_dim() const { return static_cast<int>(embed_dim * mlp_ratio); }
  bool has_class_token() const { return class_token.value_or(pool == Pooling::kCls); }
  bool has_patch_bias() const { return patch_bias.value_or(!norm_pre); }
  int prefix_tokens() const { return has_class_token() + distilled + registers; }
  // Number of blocks before the prefix joins; their tokens are a grid.
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
