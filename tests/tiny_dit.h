// Small diffusion transformers, with weights large enough to matter.
#pragma once

#include <string>
#include <vector>

#include "dtn/models/presets.h"
#include "image_models.h"
#include "tiny_vit.h"

namespace dtn::test {

// 2 x 3 tokens, so that rows and columns differ. 20 channels: the weights of the modulations do not
// follow one another in memory.
inline ModelConfig tiny_dit(ConditionInto into, const std::string& norm = "ln") {
  ModelConfig c = preset_registry().at("dit_tiny").model;
  c.image_size = {4, 6};
  c.patch_size = 2;
  c.channels = 2;
  c.num_classes = 5;
  c.embed_dim = 20;
  c.depth = 2;
  c.num_heads = 5;
  c.mlp_ratio = 2;
  c.condition.into = into;
  c.norm.type = norm;
  if (norm == "dtn" && into == ConditionInto::kInContext) {
    c.norm.options = {{"prefix", std::string("ln")}};
  }
  return c;
}

// Every way of the condition into the blocks with LayerNorm and with DTN, and a model without
// classes.
inline std::vector<ModelConfig> tiny_dits() {
  std::vector<ModelConfig> all;
  for (const ConditionInto into : {ConditionInto::kAdalnZero, ConditionInto::kAdaln,
                                   ConditionInto::kInContext, ConditionInto::kCrossAttention}) {
    all.push_back(tiny_dit(into));
    all.push_back(tiny_dit(into, "dtn"));
    all.back().learn_sigma = true;
  }
  all.push_back(tiny_dit(ConditionInto::kAdalnZero));
  all.back().num_classes = 0;
  all.push_back(tiny_dit(ConditionInto::kInContext));
  all.back().num_classes = 0;
  // 64 channels: the weights of the modulations are one matrix in memory.
  all.push_back(tiny_dit(ConditionInto::kAdalnZero));
  all.back().embed_dim = 64;
  all.back().num_heads = 4;
  return all;
}

inline std::string title_of_dit(const ModelConfig& c) {
  const char* names[] = {"adaln_zero", "adaln", "in_context", "cross_attention"};
  return cat(names[static_cast<int>(c.condition.into)], ", ", c.norm.type, ", ", c.num_classes,
             " classes, ", c.embed_dim, " channels");
}

// Images, noise levels from the first to the last, and labels, one of them "none".
inline Fields dit_inputs(const ModelConfig& c, std::int64_t batch, DType dtype,
                         Device device = kCpu) {
  Tensor timesteps = Tensor::empty({batch}, DType::kInt64);
  Tensor labels = Tensor::empty({batch}, DType::kInt64);
  for (std::int64_t i = 0; i < batch; ++i) {
    timesteps.data<std::int64_t>()[i] = i == 0 ? 999 : 437 * i % 1000;
    labels.data<std::int64_t>()[i] = i == 1 ? c.num_classes : 3 * i % (c.num_classes + 1);
  }
  Fields fields{{"image", some_images(c, batch, dtype).to(device)},
                {"timestep", timesteps.to(device)}};
  if (c.num_classes > 0) fields["label"] = labels.to(device);
  return fields;
}

// Returns the image for dit_inputs(); the gradients of image_loss() are then in the store.
inline Tensor image_and_gradients(Classifier& model, std::int64_t batch, DType compute,
                                  bool checkpoint_blocks = false) {
  const Fields inputs =
      dit_inputs(model.config(), batch, accumulator_of(compute), model.parameters().device());
  return image_and_gradients(model, inputs, compute, checkpoint_blocks);
}

}  // namespace dtn::test
