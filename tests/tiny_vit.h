// Small vision transformers of every variant, with weights large enough to matter.
#pragma once

#include <vector>

#include "dtn/config/condition_field.h"
#include "dtn/models/classifier.h"
#include "dtn/ops/loss.h"
#include "dtn/ops/primitive.h"
#include "tensors.h"

namespace dtn::test {

// The paper's model: no qkv bias, a class token that joins late, DTN before it.
inline ModelConfig paper_vit() {
  ModelConfig c;
  c.preset = "paper";
  c.image_size = 15;
  c.patch_size = 5;
  c.channels = 2;
  c.num_classes = 7;
  c.embed_dim = 20;
  c.depth = 3;
  c.num_heads = 5;
  c.mlp_ratio = 2;
  c.class_token_at = 2;
  c.norm.type = "dtn";
  return c;
}

inline ModelConfig deit_vit() {
  ModelConfig c = paper_vit();
  c.preset = "deit";
  c.qkv_bias = true;
  c.class_token_at = 0;
  c.pos_embed = PosEmbed::kAll;
  c.norm.type = "ln";
  c.eps = 1e-6;
  return c;
}

inline ModelConfig mean_vit() {
  ModelConfig c = paper_vit();
  c.preset = "mean";
  c.pool = Pooling::kMean;
  return c;
}

// DTN in every block, with a class token and a register before the grid.
inline ModelConfig prefix_vit() {
  ModelConfig c = deit_vit();
  c.preset = "prefix";
  c.pool = Pooling::kMean;  // gives all parameters a gradient
  c.class_token = true;
  c.registers = 1;
  c.norm.type = "dtn";
  c.norm.options = {{"prefix", std::string("ln")}};
  return c;
}

// Gains and shifts of all blocks from an index.
inline ModelConfig adaptive_vit() {
  ModelConfig c = paper_vit();
  c.preset = "adaptive";
  c.norm.type = "adaln";
  c.norm.layers = 3;
  c.condition.from = ConditionFrom::kIndex;
  c.condition.size = 6;
  c.condition.styles = 3;
  return c;
}

// Table 10 of the paper: LayerNorm, and the positional bias in the attention.
inline ModelConfig biased_vit() {
  ModelConfig c = paper_vit();
  c.preset = "biased";
  c.norm.type = "ln";
  c.mhsa_position = true;
  return c;
}

// The paper's model on images that are wider than high, which reveals swapped sides.
inline ModelConfig wide_vit() {
  ModelConfig c = paper_vit();
  c.preset = "wide";
  c.image_size = {10, 20};
  c.mhsa_position = true;
  return c;
}

// LayerNorm models with the options of public checkpoints of other families. Every option that
// `deit_vit` does not have is in one of them.
inline std::vector<ModelConfig> checkpoint_vits() {
  ModelConfig plain = deit_vit();
  plain.image_size = 12;
  plain.patch_size = 4;
  plain.embed_dim = 64;
  plain.depth = 2;
  plain.num_heads = 4;
  const auto with = [&plain](const char* name, auto&& options) {
    ModelConfig c = plain;
    c.preset = name;
    options(c);
    return c;
  };
  return {with("deit3",
               [](ModelConfig& c) {
                 c.layer_scale = 0.1;
                 c.pos_embed = PosEmbed::kPatch;
               }),
          with("clip",
               [](ModelConfig& c) {
                 c.norm_pre = true;
                 c.act = MlpActivation::kQuickGelu;
                 c.eps = 1e-5;
               }),
          with("dinov2",
               [](ModelConfig& c) {
                 c.layer_scale = 0.5;
                 c.registers = 4;
                 c.pos_embed = PosEmbed::kPatch;
                 c.num_classes = 0;
               }),
          with("mae",
               [](ModelConfig& c) {
                 c.pool = Pooling::kMean;
                 c.class_token = true;
                 c.fc_norm = true;
               }),
          with("sbb",
               [](ModelConfig& c) {
                 c.pool = Pooling::kMean;
                 c.registers = 3;
                 c.layer_scale = 0.5;
                 c.act = MlpActivation::kGeluTanh;
                 c.pos_embed = PosEmbed::kPatch;
                 c.patch_bias = false;
               }),
          with("late",
               [](ModelConfig& c) {
                 c.registers = 2;
                 c.qk_norm = true;
                 c.act = MlpActivation::kSilu;
                 c.fc_norm = true;
                 c.pos_embed = PosEmbed::kPatch;
                 c.class_token_at = 1;
               }),
          with("giant",
               [](ModelConfig& c) {
                 c.mlp = MlpKind::kSwigluPacked;
                 c.mlp_ratio = 2.6667;  // 170 channels: the halves are not a multiple of a vector
                 c.act = MlpActivation::kSilu;
                 c.layer_scale = 0.5;
               }),
          with("geglu", [](ModelConfig& c) { c.mlp = MlpKind::kSwigluPacked; }),
          with("distilled",
               [](ModelConfig& c) {
                 c.distilled = true;
                 c.registers = 1;
               }),
          with("all", [](ModelConfig& c) {
            c.pool = Pooling::kMean;
            c.class_token = true;
            c.registers = 2;
            c.norm_pre = true;
            c.patch_bias = true;
            c.qk_norm = true;
            c.layer_scale = 0.5;
          })};
}

// Adds noise to every parameter, rounded to bfloat16. All types then have the same numbers, and no
// gradient vanishes because of tiny initial weights.
inline void perturb(ParameterStore& store, double noise = 0.25) {
  if (store.device() == kMeta) return;
  std::uint32_t stream = 900;
  for (Parameter& p : store.parameters()) {
    Doubles values = doubles(p.variable.value().to(kCpu)),
            shift = doubles(random_tensor(p.shape, stream++));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += noise * shift[i];
    Tensor value = p.variable.value();
    value.copy_from(as(from_doubles(values, p.shape, DType::kBFloat16), value.dtype()));
  }
  store.refresh_bfloat16();
}

inline Tensor some_images(const ModelConfig& c, std::int64_t batch, DType dtype,
                          const ImageSize& size) {
  return as(representable(random_tensor({batch, c.channels, size.height, size.width}, 40)), dtype);
}

inline Tensor some_images(const ModelConfig& c, std::int64_t batch, DType dtype) {
  return some_images(c, batch, dtype, c.image_size);
}

// Images, and the condition that the model reads.
inline Fields some_inputs(const ModelConfig& c, std::int64_t batch, DType dtype,
                          const ImageSize& size) {
  Fields fields{{"image", some_images(c, batch, dtype, size)}};
  const auto condition = condition_field(c);
  if (!condition) return fields;
  const Shape shape = shape_of(*condition, batch);
  if (condition->dtype == DType::kInt64) {
    Tensor styles = Tensor::empty(shape, DType::kInt64);
    for (std::int64_t i = 0; i < batch; ++i) {
      styles.data<std::int64_t>()[i] = i % c.condition.styles.value_or(1);
    }
    fields[condition->name] = styles;
  } else {
    fields[condition->name] = as(random_tensor(shape, 41), condition->dtype);
  }
  return fields;
}

inline ops::Targets some_labels(const ModelConfig& c, std::int64_t batch) {
  ops::Targets t;
  t.labels = Tensor::empty({batch}, DType::kInt64);
  const int outputs = c.num_classes > 0 ? c.num_classes : static_cast<int>(c.embed_dim);
  for (std::int64_t i = 0; i < batch; ++i) t.labels.data<std::int64_t>()[i] = 3 * i % outputs;
  t.smoothing = 0.1;
  return t;
}

// Returns a context with activations of the given type.
inline Context computing_in(DType dtype) {
  Context ctx;
  ctx.mode.compute = dtype;
  return ctx;
}

// Returns the sum of the losses of images of each size.
inline Variable loss_on(Context& ctx, Classifier& model, std::int64_t batch,
                        const std::vector<ImageSize>& sizes) {
  Variable sum;
  for (const ImageSize& size : sizes) {
    const Fields inputs =
        some_inputs(model.config(), batch, accumulator_of(ctx.mode.compute), size);
    const Variable logits = model.forward(ctx, inputs);
    const Variable loss = ops::cross_entropy(ctx, logits, some_labels(model.config(), batch)).mean;
    sum = sum.defined() ? primitive::add(ctx, sum, loss) : loss;
  }
  return sum;
}

// Sets the gradients in the store to those of loss_on().
inline void run_gradients(Classifier& model, std::int64_t batch, DType dtype, Context ctx,
                          const std::vector<ImageSize>& sizes, bool checkpoint_blocks = false) {
  Tape tape;
  ctx.tape = &tape;
  model.parameters().zero_gradients();
  ctx.mode.compute = dtype;
  ctx.mode.checkpoint_blocks = checkpoint_blocks;
  tape.backward(loss_on(ctx, model, batch, sizes));
}

// Runs one forward and backward pass and returns the logits; the gradients are then in the store.
inline Tensor logits_and_gradients(Classifier& model, std::int64_t batch, DType dtype, Context ctx,
                                   bool checkpoint_blocks = false) {
  Tape tape;
  ctx.tape = &tape;
  model.parameters().zero_gradients();
  ctx.mode.compute = dtype;
  ctx.mode.checkpoint_blocks = checkpoint_blocks;
  const ModelConfig& c = model.config();
  Variable logits = model.forward(ctx, some_inputs(c, batch, accumulator_of(dtype), c.image_size));
  tape.backward(ops::cross_entropy(ctx, logits, some_labels(model.config(), batch)).mean);
  return logits.value();
}

}  // namespace dtn::test
