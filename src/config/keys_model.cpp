// Keys of the model.
#include "config/key_rows.h"

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

std::vector<Key> model_keys() {
  return {
      value("model.preset", FIELD(model.preset), kAny,
            "model that the other keys of this section start from; an architecture that dtn-info "
            "--models lists is a preset, too",
            "deit_small"),
      value("model.image_size", FIELD(model.image_size), between(1, 8192),
            "height and width of the model's input images, in pixels: one number, or [height, "
            "width]; must be divisible by patch_size"),
      value("model.patch_size", FIELD(model.patch_size), between(1, 8192),
            "height and width of a patch, in pixels; each patch becomes one token; in models with "
            "several stages, the first stride"),
      value("model.channels", FIELD(model.channels), between(1, 1024),
            "channels of the images: 3 for colour, 1 for grey"),
      value("model.num_classes", FIELD(model.num_classes), between(0, 1e6),
            "number of classes, which are the outputs of the head; 0: no head, the outputs are the "
            "features that the head would read; if a training config omits the key, the number of "
            "classes of the training data"),
      value("model.embed_dim", FIELD(model.embed_dim), between(1, 65536),
            "width of the model: channels of a token, divisible by num_heads; one number, or a "
            "list with one per stage"),
      value("model.depth", FIELD(model.depth), between(1, 1000),
            "number of blocks, or a list with one number per stage; the length of the list is the "
            "number of stages"),
      value("model.num_heads", FIELD(model.num_heads), between(1, 65536),
            "number of attention heads of each block, or a list with one number per stage"),
      value("model.mlp_ratio", FIELD(model.mlp_ratio), {.low = 0, .high = 64, .low_open = true},
            "hidden width of the MLP relative to embed_dim, or a list with one ratio per stage"),
      value("model.reduction", FIELD(model.reduction), between(1, 1024),
            "ratio of the query grid to the key and value grid along each side, for each stage "
            "(PVT); unset in families without this reduction",
            "[8, 4, 2, 1]"),
      value("model.window", FIELD(model.window), between(1, 1024),
            "side of the attention windows, in tokens (Swin); unset in families without windows",
            "7"),
      choice(
          "model.mlp", FIELD(model.mlp),
          "MLP of a block: plain is fc2(act(fc1 x)); swiglu_packed is fc2(act(g) u) with the "
          "halves g, u of fc1 x, which is SwiGLU with act: silu; mlp_ratio sets the width of fc1"),
      choice("model.act", FIELD(model.act),
             "activation of the MLP: gelu (exact), gelu_tanh (approximation by tanh), quick_gelu "
             "(x sigmoid(1.702 x)) or silu"),
      value("model.qkv_bias", FIELD(model.qkv_bias), kAny,
            "adds a bias to the projection to queries, keys and values"),
      value("model.qk_norm", FIELD(model.qk_norm), kAny,
            "applies LayerNorm to each head's queries and keys before their product"),
      value("model.class_token", FIELD(model.class_token), kAny,
            "adds a class token; unset: true if pool is cls", "true"),
      value("model.distilled", FIELD(model.distilled), kAny,
            "adds a distillation token with its own head, as in DeiT; the logits of the two heads "
            "are averaged"),
      value("model.registers", FIELD(model.registers), between(0, 1024),
            "number of learned tokens that take part in the attention but that the head does not "
            "read",
            "4"),
      value("model.class_token_at", FIELD(model.class_token_at), between(0, 1000),
            "block before which class token and registers join the patches, counted from 0; unset "
            "in a model too shallow for the preset's value: two blocks before the end"),
      choice("model.pos_embed", FIELD(model.pos_embed),
             "tokens that have a learned position: patch (only the patches) or all (also class "
             "token and registers)"),
      choice("model.pos_resize", FIELD(model.pos_resize),
             "resizing of the positions of init_weights to another grid: bicubic (as in DeiT), "
             "bicubic_antialias (as in timm) or bilinear (as in PVT)"),
      choice("model.pool", FIELD(model.pool),
             "input of the head: cls (the class token) or mean (the mean of the patches)"),
      value("model.patch_bias", FIELD(model.patch_bias), kAny,
            "adds a bias to the convolution that turns patches into tokens; unset: true if "
            "norm_pre is false",
            "false"),
      value("model.norm_pre", FIELD(model.norm_pre), kAny,
            "applies LayerNorm to all tokens before the first block, as in CLIP"),
      value("model.fc_norm", FIELD(model.fc_norm), kAny,
            "places the last LayerNorm after the pooling, under the name fc_norm"),
      value("model.layer_scale", FIELD(model.layer_scale), kAny,
            "LayerScale: initial value of the learned factors on the channels of each branch; "
            "unset: no factors",
            "1e-4"),
      value("model.drop_path", FIELD(model.drop_path), fraction(),
            "stochastic depth: probability that a sample skips a residual branch of the last "
            "block; see drop_path_mode",
            "0.1"),
      choice("model.drop_path_mode", FIELD(model.drop_path_mode),
             "drop_path over the blocks: linear (from 0 at the first block to drop_path at the "
             "last) or constant (drop_path at all blocks)"),
      value("model.dropout", FIELD(model.dropout), fraction(),
            "dropout probability after the positions, the attention projection and both layers of "
            "the MLP",
            "0.1"),
      value("model.attention_dropout", FIELD(model.attention.dropout), fraction(),
            "dropout probability of the attention weights, in sequence models with dense attention",
            "0.1"),
      value("model.max_length", FIELD(model.max_length), between(0, 1 << 20),
            "number of tokens of the longest sequence that the model reads, without the class "
            "token; longer sequences are cut at the end; 0 in models of images"),
      choice("model.attention.variant", FIELD(model.attention.variant),
             "BigBird and Reformer: clean (as in their papers) or lra (as in the Long-Range "
             "Arena's code, where attention includes pads)"),
      value("model.attention.block_size", FIELD(model.attention.block_size), between(1, 65536),
            "BigBird: number of tokens of a block"),
      value("model.attention.random_blocks", FIELD(model.attention.random_blocks), between(1, 1024),
            "BigBird: number of random blocks that each block attends to, besides its neighbours, "
            "the first and the last block"),
      value("model.attention.hashes", FIELD(model.attention.hashes), between(1, 64),
            "Reformer: number of hashing rounds"),
      value("model.attention.buckets", FIELD(model.attention.buckets), between(2, 65536),
            "Reformer: number of buckets per round, an even number; also the number of chunks that "
            "the sorted tokens are cut into"),
      value("model.eps", FIELD(model.eps), above(0),
            "added to the variances in the norms, before the square root"),
      value("model.mhsa_position", FIELD(model.mhsa_position), kAny,
            "adds relative positions to the attention (equation 6 of the DTN paper), in the blocks "
            "before the class token joins; in PVT, in all stages but the last"),
      value("model.init_weights", FIELD(model.init_weights), kAny,
            "weights to start from: a safetensors file, such as timm's model.safetensors, or the "
            "folder of a checkpoint, of a run or of a model from the Hugging Face hub; positions "
            "are resized to this model's grid; a head of another size is initialized anew",
            "weights/model.safetensors"),
      choice("model.init_head", FIELD(model.init_head),
             "head of the model: keep uses the head of init_weights; reset initializes a new head, "
             "even if that one fits"),
      value("model.init_image_size", FIELD(model.init_image_size), between(1, 8192),
            "image size that the loaded weights were trained at, in pixels: one number, or "
            "[height, width]; needed if the file has no dtn config and the grid of its positions "
            "is not square; a config in the file takes precedence",
            "[288, 512]"),
      value("model.norm.type", FIELD(model.norm.type), kAny,
            "normalizer of the first norm.layers blocks; the other blocks and the last norm use "
            "LayerNorm"),
      value("model.norm.layers", FIELD(model.norm.layers), between(0, 1000),
            "number of blocks, from the first, that use norm.type (in PVT and Swin: of stages); "
            "unset: class_token_at, or all blocks if there is no class token or norm.prefix is ln; "
            "in PVT, all stages but the last",
            "10"),
      value("model.norm.eps", FIELD(model.norm.eps), above(0),
            "added to the variances in norm.type, before the square root; unset: model.eps, or "
            "1e-5 for dtn in models with several stages",
            "1e-6"),
  };
}

}  // namespace dtn::config
