#include "apps/export/hub_folder.h"

#include <nlohmann/json.hpp>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

using Json = nlohmann::ordered_json;

// Epsilon of the LayerNorms of timm's networks; no argument changes it.
constexpr double kUsualEps = 1e-6, kClipEps = 1e-5;

// Returns the reason why timm has no such model; empty if it has one.
std::string reason_against(const ModelConfig& m) {
  if (m.family != "vit") {
    return cat("timm has other names for the weights of model.family ", m.family,
               "; only vision transformers are written");
  }
  if (m.norm.type != "ln" && m.norm_layers() > 0) {
    return cat("timm has no norm ", m.norm.type,
               "; docs/export.md shows how to use the model in PyTorch or as ONNX");
  }
  if (m.norm.affine == false)
    return "timm's LayerNorm has weight and bias; model.norm.affine is false";
  if (m.norm.eps && *m.norm.eps != m.eps) return "timm has one epsilon; model.norm.eps is another";
  if (m.eps != kUsualEps && m.eps != kClipEps) {
    return cat("timm's LayerNorms have an epsilon of 1e-6 or 1e-5; model.eps is ", m.eps);
  }
  if (m.distilled && m.eps != kUsualEps) {
    return cat("timm's distilled models have an epsilon of 1e-6; model.eps is ", m.eps);
  }
  if (m.distilled && (m.pool == Pooling::kMean || m.registers > 0)) {
    return "timm's distilled models read their tokens and have no registers; model.pool or "
           "model.registers is another";
  }
  if (m.prefix_tokens() > 0 && m.class_token_at > 0) {
    return cat(
        "the class token of timm's models joins before the first block; "
        "model.class_token_at is ",
        m.class_token_at);
  }
  if (m.mhsa_position) return "timm has no positional bias; model.mhsa_position is true";
  if (m.condition.from) return "timm's models read no condition; model.condition.from is set";
  if (m.mlp == MlpKind::kSwigluPacked)
    return "no argument of timm's stands for model.mlp swiglu_packed";
  if (m.has_patch_bias() == m.norm_pre) {
    return "in timm the patch convolution has a bias unless a norm precedes the blocks; "
           "model.patch_bias is another";
  }
  return "";
}

// A network of timm that differs from the model in its arguments alone.
std::string architecture_of(const ModelConfig& m) {
  if (m.eps == kClipEps) return "vit_base_patch32_clip_224";
  return m.distilled ? "deit_base_distilled_patch16_224" : "vit_base_patch16_224";
}

const char* activation_of(MlpActivation act) {
  switch (act) {
    case MlpActivation::kGelu: return "gelu";
    case MlpActivation::kGeluTanh: return "gelu_tanh";
    case MlpActivation::kQuickGelu: return "quick_gelu";
    case MlpActivation::kRelu: return "relu";
    default: return "silu";
  }
}

const char* pool_of(const ModelConfig& m) { return m.pool == Pooling::kMean ? "avg" : "token"; }

// Arguments of timm's VisionTransformer.
Json arguments_of(const ModelConfig& m) {
  Json args;
  args["img_size"] = {m.image_size.height, m.image_size.width};
  args["patch_size"] = m.patch_size;
  args["in_chans"] = m.channels;
  args["embed_dim"] = static_cast<int>(m.embed_dim);
  args["depth"] = static_cast<int>(m.depth);
  args["num_heads"] = static_cast<int>(m.num_heads);
  args["mlp_ratio"] = static_cast<double>(m.mlp_ratio);
  args["qkv_bias"] = m.qkv_bias;
  args["qk_norm"] = m.qk_norm;
  if (m.layer_scale) args["init_values"] = *m.layer_scale;
  args["global_pool"] = pool_of(m);  // timm 1.0 does not read the one outside
  args["class_token"] = m.has_class_token();
  args["no_embed_class"] = m.pos_embed == PosEmbed::kPatch;
  args["reg_tokens"] = m.registers;
  args["pre_norm"] = m.norm_pre;
  args["fc_norm"] = m.fc_norm;
  args["act_layer"] = activation_of(m.act);
  return args;
}

// Preparation of images, and what timm adapts when it loads weights.
Json preparation_of(const ExperimentConfig& config, const DatasetRegistry& datasets) {
  const ModelConfig& m = config.model;
  const Normalization normalization = exported_normalization(config, datasets);
  const bool bicubic = config.data.interpolation == Interpolation::kBicubic;
  Json json;
  json["custom_load"] = false;
  json["input_size"] = {m.channels, m.image_size.height, m.image_size.width};
  json["fixed_input_size"] = true;
  json["interpolation"] = bicubic ? "bicubic" : "bilinear";
  json["crop_pct"] = config.data.crop_pct;
  json["crop_mode"] = "center";
  json["mean"] = normalization.mean;
  json["std"] = normalization.std;
  json["num_classes"] = m.num_classes;
  json["pool_size"] = nullptr;
  // timm converts the weights of this layer from RGB, which these are not.
  json["first_conv"] = m.channels == 3 ? Json("patch_embed.proj") : Json(nullptr);
  json["classifier"] = m.distilled ? Json({"head", "head_dist"}) : Json("head");
  return json;
}

}  // namespace

Normalization exported_normalization(const ExperimentConfig& config,
                                     const DatasetRegistry& datasets) {
  const int channels = config.model.channels;
  if (config.data.dataset != "tensors") {
    return resolve_normalization(config.data, channels, datasets);
  }
  const auto count = static_cast<std::size_t>(channels);
  return {std::vector<float>(count, 0), std::vector<float>(count, 1)};
}

std::string hub_config(const ExperimentConfig& config, const std::vector<std::string>& names,
                       const DatasetRegistry& datasets) {
  const ModelConfig& m = config.model;
  if (const std::string reason = reason_against(m); !reason.empty()) {
    throw ConfigError(cat("--hub: ", reason));
  }
  Json json;
  json["architecture"] = architecture_of(m);
  json["num_classes"] = m.num_classes;
  json["num_features"] = static_cast<int>(m.embed_dim);
  json["global_pool"] = pool_of(m);
  if (!names.empty()) json["label_names"] = names;
  json["model_args"] = arguments_of(m);
  json["pretrained_cfg"] = preparation_of(config, datasets);
  return json.dump(2) + "\n";
}

}  // namespace dtn::app
