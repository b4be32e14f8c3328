// The keys of the model.
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
std::span<const std::string> names_of<DropPathMode>() {
  static const std::array<std::string, 2> names = {"linear", "constant"};
  return names;
}
template <>
std::span<const std::string> names_of<PosResize>() {
  static const std::array<std::string, 2> names = {"bicubic", "bicubic_antialias"};
  return names;
}
template <>
std::span<const std::string> names_of<MlpActivation>() {
  static const std::array<std::string, 4> names = {"gelu", "gelu_tanh", "quick_gelu", "silu"};
  return names;
}

namespace {

Key preset() {
  return {"model.preset", "the model to start from",
          [](const Field& f, ExperimentConfig& c) {
            if (!f.node.is_scalar()) fail(f, "must be the name of a preset, not ", shown(f.node));
            try {
              c.model = model_preset(f.node.text);
            } catch (const ConfigError& e) {
              fail(f.node.where, e.what());
            }
          },
          [](const ExperimentConfig& c) { return write_value(c.model.preset); }};
}

}  // namespace

std::vector<Key> model_keys() {
  return {
      preset(),
      value("model.image_size", FIELD(model.image_size), between(1, 8192), "pixels per side"),
      value("model.patch_size", FIELD(model.patch_size), between(1, 8192), "pixels per side"),
      value("model.channels", FIELD(model.channels), between(1, 1024), "of the image"),
      value("model.num_classes", FIELD(model.num_classes), between(0, 1e6),
            "outputs of the head; 0 for the features it would see"),
      value("model.embed_dim", FIELD(model.embed_dim), between(1, 65536), "channels of a token"),
      value("model.depth", FIELD(model.depth), between(1, 1000), "number of blocks"),
      value("model.num_heads", FIELD(model.num_heads), between(1, 65536), "attention heads"),
      value("model.mlp_ratio", FIELD(model.mlp_ratio), {.low = 0, .high = 64, .low_open = true},
            "hidden width of the MLP relative to embed_dim"),
      choice("model.act", FIELD(model.act), "activation of the MLP"),
      value("model.qkv_bias", FIELD(model.qkv_bias), kAny, "bias of the qkv projection"),
      value("model.qk_norm", FIELD(model.qk_norm), kAny,
            "LayerNorm of each head's queries and keys"),
      value("model.class_token", FIELD(model.class_token), kAny,
            "whether there is a class token; default with pool: cls"),
      value("model.distilled", FIELD(model.distilled), kAny,
            "a second token with a head of its own, as DeiT distils; the logits are averaged"),
      value("model.registers", FIELD(model.registers), between(0, 1024),
            "learned tokens beside the patches, which the head does not see"),
      value("model.class_token_at", FIELD(model.class_token_at), between(0, 1000),
            "the block before which class token and registers join"),
      choice("model.pos_embed", FIELD(model.pos_embed), "which tokens have a position"),
      choice("model.pos_resize", FIELD(model.pos_resize),
             "how positions of weights for another grid are resized"),
      choice("model.pool", FIELD(model.pool), "what the head sees"),
      value("model.patch_bias", FIELD(model.patch_bias), kAny,
            "bias of the patch convolution; default unless norm_pre"),
      value("model.norm_pre", FIELD(model.norm_pre), kAny,
            "LayerNorm of all tokens ahead of the first block"),
      value("model.fc_norm", FIELD(model.fc_norm), kAny,
            "the last LayerNorm comes behind the pooling, as fc_norm"),
      value("model.layer_scale", FIELD(model.layer_scale), kAny,
            "what the gains of the branches' channels start at; null for no gains"),
      value("model.drop_path", FIELD(model.drop_path), fraction(), "rate of the last block"),
      choice("model.drop_path_mode", FIELD(model.drop_path_mode),
             "whether the rate grows from 0 at the first block or is that of every block"),
      value("model.dropout", FIELD(model.dropout), fraction(), "dropout rate"),
      value("model.eps", FIELD(model.eps), above(0), "added to variances"),
      value("model.mhsa_position", FIELD(model.mhsa_position), kAny,
            "relative positions in the attention, before the class token joins"),
      value("model.init_weights", FIELD(model.init_weights), kAny,
            "a safetensors file to start from"),
      value("model.norm.type", FIELD(model.norm.type), kAny, "the normalizer"),
      value("model.norm.layers", FIELD(model.norm.layers), between(0, 1000),
            "the first blocks, which use the normalizer; default class_token_at, or depth"),
      value("model.norm.eps", FIELD(model.norm.eps), above(0), "default model.eps"),
  };
}

}  // namespace dtn::config
