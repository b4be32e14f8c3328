// Small image-to-image models, with weights large enough to matter.
#pragma once

#include <string>
#include <vector>

#include "dtn/config/condition_field.h"
#include "dtn/models/presets.h"
#include "image_models.h"
#include "tiny_vit.h"

namespace dtn::test {

inline ModelConfig unet_preset(const std::string& name) { return preset_registry().at(name).model; }

// Two levels on 4 x 6 pixels, so that rows and columns differ. The activation has no kink.
inline ModelConfig tiny_unet(const std::string& norm = "bn") {
  ModelConfig c = unet_preset("unet_tiny");
  c.image_size = {4, 6};
  c.channels = 2;
  c.embed_dim = PerStage<int>{8, 16};
  c.depth = PerStage<int>{2, 1};
  c.act = MlpActivation::kSilu;
  c.norm.type = norm;
  return c;
}

inline ModelConfig tiny_unet_with(FeatureShortcut shortcut, const std::string& norm = "bn") {
  ModelConfig c = tiny_unet(norm);
  c.shortcut = shortcut;
  return c;
}

// A model whose decoder has a conditional normalizer.
inline ModelConfig conditional_unet(const std::string& norm, std::optional<ConditionFrom> from) {
  ModelConfig c = tiny_unet();
  c.decoder_norm.emplace();
  c.decoder_norm->type = norm;
  for (const NormOption& option :
       std::vector<NormOption>{{"hidden", std::int64_t{5}}, {"summary", std::int64_t{5}}}) {
    c.decoder_norm->options.push_back(option);
  }
  c.condition.from = from;
  c.condition.mapping = 7;
  if (from != ConditionFrom::kImage || norm != "adain") c.condition.size = 3;
  c.condition.styles = 4;
  return c;
}

// All shortcuts, the positions of PONO, residual blocks, a residual output, and every normalizer.
inline std::vector<ModelConfig> tiny_unets() {
  std::vector<ModelConfig> all;
  using Shortcut = FeatureShortcut;
  for (const Shortcut s :
       {Shortcut::kNone, Shortcut::kConcat, Shortcut::kMoments, Shortcut::kDynamicMoments}) {
    all.push_back(tiny_unet_with(s));
    all.push_back(tiny_unet_with(s, "none"));
    all.back().bottleneck = 1;
  }
  all.push_back(tiny_unet_with(Shortcut::kMoments));
  all.back().pono = false;
  all.push_back(tiny_unet_with(Shortcut::kNone, "in"));
  all.back().pono = true;
  all.push_back(tiny_unet());
  all.back().residual = true;
  all.push_back(tiny_unet());
  all.back().out_channels = 1;
  for (const char* norm : {"gn", "ln", "rms", "pono", "dtn", "sn", "dln"}) {
    all.push_back(tiny_unet(norm));
  }
  all.push_back(conditional_unet("cin", ConditionFrom::kIndex));
  all.push_back(conditional_unet("cin", ConditionFrom::kVector));
  all.push_back(conditional_unet("adain", ConditionFrom::kImage));
  all.push_back(conditional_unet("adain_mlp", ConditionFrom::kIndex));
  all.push_back(conditional_unet("adain_mlp", ConditionFrom::kImage));
  all.push_back(conditional_unet("cbn", ConditionFrom::kVector));
  all.push_back(conditional_unet("adaln", ConditionFrom::kIndex));
  all.push_back(conditional_unet("spade", std::nullopt));
  all.push_back(conditional_unet("spade", std::nullopt));
  all.back().norm = *all.back().decoder_norm;
  return all;
}

inline std::string title_of_unet(const ModelConfig& c) {
  const char* shortcuts[] = {"none", "concat", "ms", "dms"};
  const char* froms[] = {"vector", "index", "image"};
  return cat(c.norm.type, c.decoder_norm ? cat(" and ", c.decoder_norm->type) : "", ", ",
             shortcuts[static_cast<int>(c.shortcut)], ", bottleneck ", c.bottleneck,
             c.condition.from ? cat(", from ", froms[static_cast<int>(*c.condition.from)]) : "",
             c.pono ? cat(", pono ", *c.pono) : "", c.residual ? ", residual" : "");
}

// The input, and what the model reads as its condition.
inline Fields unet_inputs(const ModelConfig& c, std::int64_t batch, DType dtype,
                          Device device = kCpu) {
  Fields fields{{"input", some_images(c, batch, dtype).to(device)}};
  std::uint32_t seed = 91;
  for (const FieldSpec& spec : condition_fields(c)) {
    const Shape shape = shape_of(spec, batch);
    if (spec.dtype != DType::kInt64) {
      fields[spec.name] = as(random_tensor(shape, seed++), dtype).to(device);
      continue;
    }
    Tensor styles = Tensor::empty(shape, DType::kInt64);
    for (std::int64_t i = 0; i < batch; ++i) {
      styles.data<std::int64_t>()[i] = (i + 1) % c.condition.styles.value_or(1);
    }
    fields[spec.name] = styles.to(device);
  }
  return fields;
}

// Returns the image for unet_inputs(); the gradients of image_loss() are then in the store.
inline Tensor unet_image_and_gradients(Classifier& model, std::int64_t batch, DType compute,
                                       bool checkpoint_blocks = false) {
  const Fields inputs =
      unet_inputs(model.config(), batch, accumulator_of(compute), model.parameters().device());
  return image_and_gradients(model, inputs, compute, checkpoint_blocks);
}

}  // namespace dtn::test
