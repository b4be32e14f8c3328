// Passes of models whose result is an image, and checks of their gradients.
#pragma once

#include <algorithm>
#include <functional>

#include "dtn/models/backbone.h"
#include "tiny_vit.h"

namespace dtn::test {

inline ImageModel& image_model(Classifier& model) {
  return dynamic_cast<ImageModel&>(model.backbone());
}

// Sum of the image with fixed factors.
inline Variable image_loss(Context& ctx, const Variable& image) {
  const Tensor factors = as(random_tensor(image.shape(), 77), image.dtype()).to(image.device());
  return primitive::sum(ctx,
                        primitive::reshape(ctx, primitive::mul(ctx, image, Variable(factors)),
                                           {image.value().numel()}),
                        0);
}

// Returns the image; the gradients of image_loss() are then in the store.
inline Tensor image_and_gradients(Classifier& model, const Fields& inputs, DType compute,
                                  bool checkpoint_blocks = false) {
  Tape tape;
  Context ctx = computing_in(compute);
  ctx.tape = &tape;
  ctx.mode.training = true;
  ctx.mode.checkpoint_blocks = checkpoint_blocks;
  model.parameters().zero_gradients();
  const Variable image = image_model(model).image(ctx, inputs);
  tape.backward(image_loss(ctx, image));
  return image.value();
}

// True if image_loss() does not depend on an element of a parameter.
using HasNoGradient = std::function<bool(const Parameter&, std::int64_t element)>;

// Checks the gradients in the store, of a model with float64 weights, against central differences
// of image_loss(), for elements of every parameter. Running statistics stay.
inline void expect_gradients_of_image(Classifier& model, const Fields& inputs,
                                      const HasNoGradient& has_none) {
  const auto loss = [&] {
    Context ctx = computing_in(DType::kFloat64);
    ctx.mode.training = ctx.mode.recompute = true;
    const Variable image = image_model(model).image(ctx, inputs);
    return *image_loss(ctx, image).value().data<double>();
  };
  for (Parameter& p : model.parameters().parameters()) {
    const Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
    const double scale = max_abs(doubles(gradient));
    if (p.name.ends_with("pos_proj.bias") || p.frozen) {
      EXPECT_LE(scale, p.frozen ? 0 : 1e-12) << p.name;
      continue;
    }
    EXPECT_GT(scale, 1e-6) << p.name;
    Tensor leaf = p.variable.value();
    const std::int64_t n = p.shape.numel(), stride = std::max<std::int64_t>(1, n / 5);
    for (std::int64_t i = n / 7; i < n; i += stride) {
      constexpr double kStep = 1e-5;
      double& value = leaf.data<double>()[i];
      const double original = value;
      value = original + kStep;
      const double above = loss();
      value = original - kStep;
      const double below = loss();
      value = original;
      const double want = has_none(p, i) ? 0 : (above - below) / (2 * kStep);
      // The loss is exact to about 1e-14, which the quotient divides by the step.
      EXPECT_NEAR(element(gradient, i), want, 1e-6 * scale + 1e-14 / kStep)
          << p.name << "[" << i << "]";
    }
  }
}

}  // namespace dtn::test
