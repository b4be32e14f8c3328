// Gradients of image-to-image models, against central differences in float64.
#include "tiny_unet.h"

namespace dtn {
namespace {

constexpr std::int64_t kBatch = 3;

double loss_of_unet(Classifier& model) {
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.mode.training = true;
  ctx.mode.recompute = true;  // running statistics stay
  const Fields inputs = test::unet_inputs(model.config(), kBatch, DType::kFloat64);
  const Variable image = test::unet_model(model).image(ctx, inputs);
  return *test::unet_loss(ctx, image).value().data<double>();
}

void check_slopes(Classifier& model, Parameter& p) {
  const Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
  const double scale = test::max_abs(test::doubles(gradient));
  const bool has_none = p.name.ends_with("pos_proj.bias");  // no effect under the softmax
  if (!has_none) {
    EXPECT_GT(scale, 1e-7) << p.name;
  }
  Tensor leaf = p.variable.value();
  const std::int64_t n = p.shape.numel(), stride = std::max<std::int64_t>(1, n / 5);
  for (std::int64_t i = n / 7; i < n; i += stride) {
    constexpr double kStep = 1e-5;
    double& value = leaf.data<double>()[i];
    const double original = value;
    value = original + kStep;
    const double above = loss_of_unet(model);
    value = original - kStep;
    const double below = loss_of_unet(model);
    value = original;
    const double want = has_none ? 0 : (above - below) / (2 * kStep);
    // The loss is exact to about 1e-13, which the quotient divides by the step.
    EXPECT_NEAR(test::element(gradient, i), want, 1e-5 * scale + 1e-13 / kStep)
        << p.name << " " << i;
  }
}

TEST(UNetGradients, MatchCentralDifferences) {
  for (const ModelConfig& c : test::tiny_unets()) {
    SCOPED_TRACE(test::title_of_unet(c));
    Classifier model(c, 5, DType::kFloat64);
    test::perturb(model.parameters());
    test::unet_image_and_gradients(model, kBatch, DType::kFloat64);
    for (Parameter& p : model.parameters().parameters()) check_slopes(model, p);
  }
}

}  // namespace
}  // namespace dtn
