// Checks the gradient of a whole model's loss against central differences in float64, for elements
// of every parameter.
#pragma once

#include <optional>

#include "tiny_vit.h"

namespace dtn::test {

inline double loss_of(Classifier& model, std::int64_t batch, Context ctx,
                      const std::vector<ImageSize>& sizes) {
  ctx.mode.compute = DType::kFloat64;
  return *loss_on(ctx, model, batch, sizes).value().data<double>();
}

// True if a parameter changes no output: the bias of DTN's positions, which the softmax cancels.
inline bool is_inert(const std::string& name) { return name.ends_with("pos_proj.bias"); }

// True if a parameter of LeViT shifts all tokens of a stream that only BatchNorms read. They remove
// the shift if they use the statistics of the batch.
inline bool is_shift_of_stream(const ModelConfig& config, const std::string& name) {
  if (config.family != "levit") return false;
  return name == "patch_embed.6.bn.bias" || name.ends_with(".proj.1.bn.bias") ||
         name.ends_with(".m.2.bn.bias");
}

// True if the loss changes with an element of a parameter as its gradient predicts. `scale` is the
// largest gradient of the parameter. The loss, about 2, is exact to 1e-15; the error of its
// difference quotient is this error divided by the step. A step may cross the kink of a ReLU, so
// smaller steps are tried too.
inline bool is_slope(double gradient, double scale, Classifier& model, Parameter& p, std::int64_t i,
                     const Context& ctx, const std::vector<ImageSize>& sizes) {
  constexpr std::int64_t kBatch = 3;
  Tensor leaf = p.variable.value();
  double& value = leaf.data<double>()[i];
  const double original = value;
  for (double h : {1e-5, 1e-6, 1e-7}) {
    value = original + h;
    const double above = loss_of(model, kBatch, ctx, sizes);
    value = original - h;
    const double below = loss_of(model, kBatch, ctx, sizes);
    value = original;
    const double numeric = (above - below) / (2 * h);
    if (std::abs(gradient - numeric) <= 1e-6 * scale + 2e-15 / h) return true;
  }
  return false;
}

// Checks the loss of images of the model's size; with `other`, the sum of the losses of images of
// both sizes.
inline void check_gradients(const ModelConfig& config, const Context& ctx,
                            bool checkpoint_blocks = false,
                            const std::optional<ImageSize>& other = {}) {
  constexpr std::int64_t kBatch = 3;
  Threads one(1);  // thousands of tiny passes
  Classifier model(config, 1, DType::kFloat64);
  perturb(model.parameters());
  std::vector<ImageSize> sizes = {config.image_size};
  if (other) sizes.push_back(*other);
  run_gradients(model, kBatch, DType::kFloat64, ctx, sizes, checkpoint_blocks);
  for (Parameter& p : model.parameters().parameters()) {
    Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
    double scale = max_abs(doubles(gradient));
    if (is_inert(p.name) || p.frozen) {
      EXPECT_EQ(scale, 0) << p.name;
    } else if (p.name.ends_with("k_norm.bias") ||  // a shift of all keys changes no softmax
               (ctx.training() && is_shift_of_stream(config, p.name))) {
      EXPECT_LE(scale, 1e-12) << p.name;
    } else {
      EXPECT_GT(scale, 1e-7) << p.name;
    }
    if (p.frozen) continue;
    std::int64_t n = p.shape.numel(), stride = std::max<std::int64_t>(1, n / 5);
    for (std::int64_t i = n / 7; i < n; i += stride) {
      EXPECT_TRUE(is_slope(element(gradient, i), scale, model, p, i, ctx, sizes))
          << config.preset << ", " << p.name << "[" << i << "]";
    }
  }
}

inline Context training_context() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 8;
  ctx.rng.step = 2;
  return ctx;
}

}  // namespace dtn::test
