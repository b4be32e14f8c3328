// Keys of the model.
#include "config/key_rows.h"
#include "dtn/config/load.h"

namespace dtn::config {

template <>
std::span<const std::string> names_of<PosEmbed>() {
  static const std::array<std::string, 2> names = {"patch", "all"};
  return names;
}
template <>
std::span<const std::string> names_of<Pooling>() {
  static const std::array<std::string, 2> names = {"cls", "mean"};
  return names;
}
template <>
std::span<const std::string> names_of<InitHead>() {
  static const std::array<std::string, 2> names = {"keep", "reset"};
  return names;
}
template <>
std::span<const std::string> names_of<DropPathMode>() {
  static const std::array<std::string, 2> names = {"linear", "constant"};
  return names;
}
template <>
std::span<const std::string> names_of<PosResize>() {
  static const std::array<std::string, 3> names = {"bicubic", "bicubic_antialias", "bilinear"};
  return names;
}
template <>
std::span<const std::string> names_of<SequenceVariant>() {
  static const std::array<std::string, 2> names = {"clean", "lra"};
  return names;
}
template <>
std::span<const std::string> names_of<MlpKind>() {
  static const std::array<std::string, 2> names = {"plain", "swiglu_packed"};
  return names;
}
template <>
std::span<const std::string> names_of<MlpActivation>() {
  static const std::array<std::string, 4> names = {"gelu", "gelu_tanh", "quick_gelu", "silu"};
  return names;
}

namespace {

Key preset() {
  return {"model.preset",
          "the model that the other keys of this section start from; an architecture of dtn-info "
          "--models is one, too",
          [](const Field& f, ExperimentConfig& c) {
            if (!f.node.is_scalar()) fail(f, "must be the name of a preset, not ", shown(f.node));
            try {
              c.model = model_preset(f.node.text);
            } catch (const ConfigError& e) {
              fail(f.node.where, e.what());
            }
          },
          [](const ExperimentConfig& c) { return write_value(c.model.preset); },
          "name of a preset",
          kAny,
          {},
          "deit_small"};
}

}  // namespace

std::vector<Key> model_keys() {
  return {
      preset(),
      value("model.image_size", FIELD(model.image_size), between(1, 8192),
            "height and width of the images the model sees, in pixels: one number, or [height, "
            "width]; patch_size divides both"),
      value("model.patch_size", FIELD(model.patch_size), between(1, 8192),
            "height and width of a patch, which becomes one token, in pixels; in models of several "
            "stages the first stride"),
      value("model.channels", FIELD(model.channels), between(1, 1024),
            "channels of the images: 3 for colour, 1 for grey"),
      value("model.num_classes", FIELD(model.num_classes), between(0, 1e6),
            "classes to tell apart, the outputs of the head; 0: no head, the outputs are the "
            "features it would see; where a training config leaves it out, the number of classes "
            "of the training data"),
      value("model.embed_dim", FIELD(model.embed_dim), between(1, 65536),
            "width of the model: channels of a token; num_heads divides it; of models of several "
            "stages a list may have one for each"),
      value("model.depth", FIELD(model.depth), between(1, 1000),
            "number of blocks; the length of a list is the number of stages"),
      value("model.num_heads", FIELD(model.num_heads), between(1, 65536),
            "attention heads of each block, or a list with those of each stage"),
      value("model.mlp_ratio", FIELD(model.mlp_ratio), {.low = 0, .high = 64, .low_open = true},
            "hidden width of the MLP relative to embed_dim, or a list with one for each stage"),
      value(
          "model.reduction", FIELD(model.reduction), between(1, 1024),
          "by how much the grid of keys and values is coarser than that of the queries along each "
          "side, in each stage (PVT); unset where the family has no such thing",
          "[8, 4, 2, 1]"),
      value("model.window", FIELD(model.window), between(1, 1024),
            "side of the windows of tokens that attention stays in (Swin); unset where the family "
            "has none",
            "7"),
      choice("model.mlp", FIELD(model.mlp),
             "the MLP of a block: fc2(act(fc1 x)), or fc2(act(g) u) of the halves g, u of fc1 x, "
             "which is SwiGLU with act: silu; mlp_ratio sizes fc1"),
      choice("model.act", FIELD(model.act),
             "activation of the MLP: exact GELU, its approximation by tanh, x sigmoid(1.702 x), or "
             "SiLU"),
      value("model.qkv_bias", FIELD(model.qkv_bias), kAny,
            "whether the projection to queries, keys and values has a bias"),
      value("model.qk_norm", FIELD(model.qk_norm), kAny,
            "LayerNorm of each head's queries and keys ahead of their product"),
      value("model.class_token", FIELD(model.class_token), kAny,
            "whether there is a class token; unset: where pool is cls", "true"),
      value("model.distilled", FIELD(model.distilled), kAny,
            "a second token with a head of its own, as DeiT distils; the two heads' logits are "
            "averaged"),
      value("model.registers", FIELD(model.registers), between(0, 1024),
            "learned tokens that take part in the attention and that the head does not see", "4"),
      value("model.class_token_at", FIELD(model.class_token_at), between(0, 1000),
            "the block before which class token and registers join the patches, from 0; unset in a "
            "shallower model than the preset's: two blocks before the end"),
      choice("model.pos_embed", FIELD(model.pos_embed),
             "which tokens have a learned position: the patches, or class token and registers as "
             "well"),
      choice("model.pos_resize", FIELD(model.pos_resize),
             "how the positions of init_weights are brought to another grid: as DeiT does it, "
             "antialiased as timm does, or as PVT does"),
      choice("model.pool", FIELD(model.pool),
             "what the head sees: the class token, or the mean of the patches"),
      value(
          "model.patch_bias", FIELD(model.patch_bias), kAny,
          "whether the convolution that makes tokens of patches has a bias; unset: unless norm_pre",
          "false"),
      value("model.norm_pre", FIELD(model.norm_pre), kAny,
            "LayerNorm of all tokens ahead of the first block, as CLIP has it"),
      value("model.fc_norm", FIELD(model.fc_norm), kAny,
            "the last LayerNorm comes behind the pooling, under the name fc_norm"),
      value("model.layer_scale", FIELD(model.layer_scale), kAny,
            "LayerScale: what the learned factors on the channels of each branch start at; unset: "
            "no such factors",
            "1e-4"),
      value("model.drop_path", FIELD(model.drop_path), fraction(),
            "stochastic depth: the chance that a sample skips a branch, in the last block; see "
            "drop_path_mode",
            "0.1"),
      choice("model.drop_path_mode", FIELD(model.drop_path_mode),
             "whether the chance grows from 0 at the first block to drop_path at the last, or is "
             "drop_path in all"),
      value("model.dropout", FIELD(model.dropout), fraction(),
            "dropout behind the positions, the attention's projection and both layers of the MLP",
            "0.1"),
      value("model.attention_dropout", FIELD(model.attention.dropout), fraction(),
            "dropout of the attention's weights, in models of sequences with dense attention",
            "0.1"),
      value("model.max_length", FIELD(model.max_length), between(0, 1 << 20),
            "tokens of the longest sequence that the model sees, the class token not counted; what "
            "is longer is cut at the end. 0 in models of images"),
      choice("model.attention.variant", FIELD(model.attention.variant),
             "BigBird and Reformer: as their papers have it, or as the Long-Range Arena's code, "
             "where pads are seen"),
      value("model.attention.block_size", FIELD(model.attention.block_size), between(1, 65536),
            "BigBird: tokens of a block"),
      value("model.attention.random_blocks", FIELD(model.attention.random_blocks), between(1, 1024),
            "BigBird: how many blocks drawn at random a block sees, beside its neighbours, the "
            "first and the last"),
      value("model.attention.hashes", FIELD(model.attention.hashes), between(1, 64),
            "Reformer: rounds of hashing"),
      value("model.attention.buckets", FIELD(model.attention.buckets), between(2, 65536),
            "Reformer: buckets of a round, an even number, and chunks that the sorted tokens are "
            "cut into"),
      value("model.eps", FIELD(model.eps), above(0),
            "added to variances in the norms, ahead of the square root"),
      value(
          "model.mhsa_position", FIELD(model.mhsa_position), kAny,
          "relative positions in the attention of the blocks before the class token joins, in PVT "
          "of all stages but the last (equation 6 of the DTN paper)"),
      value(
          "model.init_weights", FIELD(model.init_weights), kAny,
          "weights to start from: a safetensors file, such as timm's model.safetensors, or the "
          "folder of a checkpoint, of a run or of a model from the Hugging Face hub; positions are "
          "resized to this grid, a head of another size is left new",
          "weights/model.safetensors"),
      choice("model.init_head", FIELD(model.init_head),
             "whether the head of init_weights is kept, or started anew although it would fit"),
      value("model.init_image_size", FIELD(model.init_image_size), between(1, 8192),
            "image size that loaded weights were trained at, in pixels: one number, or [height, "
            "width]. Needed if the file has no config of ours and its positions are no square; a "
            "config in the file wins",
            "[288, 512]"),
      value("model.norm.type", FIELD(model.norm.type), kAny,
            "the normalizer of the first norm.layers blocks; the others and the last norm are "
            "LayerNorm",
            "dtn"),
      value(
          "model.norm.layers", FIELD(model.norm.layers), between(0, 1000),
          "the number of blocks, from the first, that use norm.type, or in PVT and Swin of stages; "
          "unset: class_token_at, or all without a class token and with norm.prefix; in PVT all "
          "stages but the last",
          "10"),
      value("model.norm.eps", FIELD(model.norm.eps), above(0),
            "added to variances in norm.type, ahead of the square root; unset: model.eps, or 1e-5 "
            "for dtn in models of several stages",
            "1e-6"),
  };
}

}  // namespace dtn::config
