#include "tasks/frozen/frozen_features.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/models/weights.h"
#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

ModelConfig without_head(ModelConfig model) {
  model.num_classes = 0;
  return model;
}

// Copies x [n, C] to columns first, first + step, ... of rows [n, width].
void copy_columns(const Variable& x, std::int64_t first, std::int64_t step, Tensor& rows) {
  Context ctx;
  const Tensor from = ops::cast(ctx, x, DType::kFloat32).value().to(kCpu);
  const std::int64_t channels = from.dim(1), width = rows.dim(1);
  for (std::int64_t i = 0; i < from.dim(0); ++i) {
    const float* in = from.data<float>() + i * channels;
    float* out = rows.data<float>() + i * width + first;
    for (std::int64_t c = 0; c < channels; ++c) out[c * step] = in[c];
  }
}

// One input of zeros, on the device of the model.
Fields blank_input(Classifier& model) {
  Fields fields;
  for (const FieldSpec& spec : model.backbone().inputs()) {
    fields[spec.name] = Tensor::zeros(shape_of(spec, 1), spec.dtype, model.parameters().device());
  }
  return fields;
}

}  // namespace

FeatureChoice choice_of(const FeatureEvaluation& evaluation) {
  if (evaluation.is_knn()) return {};
  // The pooled vector of any model is that of its last block.
  if (evaluation.block_count() == 1 && !evaluation.avgpool) return {};
  return {.blocks = evaluation.block_count(), .patch_mean = evaluation.avgpool};
}

FrozenFeatures::FrozenFeatures(const ExperimentConfig& config, Device device,
                               const Registries& registries, const FeatureChoice& choice)
    : registries_(registries),
      seed_(config.seed),
      choice_(choice),
      model_(without_head(config.model), config.seed, DType::kFloat32, device, registries.models,
             registries.norms) {
  DTN_CHECK(choice.blocks >= 0 && (!choice.patch_mean || choice.blocks == 1),
            "the patch mean belongs to the features of one block");
  Context ctx;
  if (choice.blocks > 0) blocks_of(ctx, blank_input(model_));
}

void FrozenFeatures::restart_like(const TensorFile& file) {
  const std::string_view inner = "backbone.";
  const bool has_inner = std::ranges::any_of(
      file.tensors, [&](const auto& named) { return named.first.starts_with(inner); });
  model_.parameters().initialize(seed_);
  if (!has_inner) return;
  for (const Parameter& p : model_.parameters().parameters()) {
    Tensor host = Tensor::empty(p.shape, DType::kFloat32), value = p.variable.value();
    p.init.fill(host, seed_, cat(inner, p.name));
    value.copy_from(host);
  }
}

std::vector<std::string> FrozenFeatures::load(const TensorFile& file, const std::string& source) {
  return load_weights(model_, file, source, {}, registries_.presets);
}

std::int64_t FrozenFeatures::width() const {
  return model_.outputs() * (choice_.patch_mean ? 2 : std::max(1, choice_.blocks));
}

std::vector<BlockOutput> FrozenFeatures::blocks_of(Context& ctx, const Fields& batch) {
  std::vector<BlockOutput> blocks = model_.backbone().last_blocks(ctx, batch, choice_.blocks);
  if (choice_.patch_mean && !blocks[0].token.defined()) {
    throw ConfigError("the patch mean goes beside a class token, but the last block has none");
  }
  without_token_ = static_cast<int>(std::ranges::count_if(
      blocks, [](const BlockOutput& block) { return !block.token.defined(); }));
  return blocks;
}

Tensor FrozenFeatures::of(const Fields& batch) {
  Context ctx;
  ctx.mode.skip_unread = choice_.blocks == 0;
  if (choice_.blocks == 0) {
    const Variable pooled = Classifier::mean_of(ctx, model_.features(ctx, batch));
    return ops::cast(ctx, pooled, DType::kFloat32).value().to(kCpu);
  }
  const std::vector<BlockOutput> blocks = blocks_of(ctx, batch);
  const std::int64_t channels = model_.outputs();
  Tensor rows = Tensor::empty({batch.count(), width()}, DType::kFloat32);
  if (choice_.patch_mean) {
    copy_columns(blocks[0].token, 0, 2, rows);
    copy_columns(blocks[0].patches, 1, 2, rows);
    return rows;
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const BlockOutput& block = blocks[i];
    copy_columns(block.token.defined() ? block.token : block.patches,
                 static_cast<std::int64_t>(i) * channels, 1, rows);
  }
  return rows;
}

std::string FrozenFeatures::description() const {
  if (choice_.blocks == 0) return cat("the pooled vector, ", counted(width(), "values"));
  if (choice_.patch_mean) {
    return cat("class token and patch mean of the last block, ", counted(width(), "values"));
  }
  const bool none = without_token_ == choice_.blocks;
  std::string text = cat(none ? "patch means" : "class tokens", " of the last ",
                         counted(choice_.blocks, "blocks"), ", ", counted(width(), "values"));
  if (without_token_ > 0 && !none) {
    text += cat("; ", without_token_, " of the blocks gave the mean of ",
                without_token_ == 1 ? "its" : "their", " patches, as no class token has joined");
  }
  return text;
}

}  // namespace dtn
