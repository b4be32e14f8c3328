// Gradients of diffusion transformers, against central differences in float64.
#include "tiny_dit.h"

namespace dtn {
namespace {

constexpr std::int64_t kBatch = 3;

double loss_of_dit(Classifier& model) {
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.mode.training = true;
  const Fields inputs = test::dit_inputs(model.config(), kBatch, DType::kFloat64);
  const Variable image = test::image_model(model).image(ctx, inputs);
  return *test::dit_loss(ctx, image).value().data<double>();
}

// The key part of an attention's bias shifts all scores of a query, which changes no softmax; so
// does the bias of DTN's positions.
bool has_no_gradient(const ModelConfig& c, const Parameter& p, std::int64_t i) {
  if (p.name.ends_with("pos_proj.bias")) return true;
  const std::int64_t d = c.embed_dim;
  if (p.name.ends_with("attn.qkv.bias")) return i >= d && i < 2 * d;
  return p.name.ends_with("cross_attn.kv.bias") && i < d;
}

void check_slopes(Classifier& model, Parameter& p) {
  const Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
  const double scale = test::max_abs(test::doubles(gradient));
  if (p.name.ends_with("pos_proj.bias") || p.frozen) {
    EXPECT_LE(scale, p.frozen ? 0 : 1e-12) << p.name;
    return;
  }
  EXPECT_GT(scale, 1e-6) << p.name;
  Tensor leaf = p.variable.value();
  const std::int64_t n = p.shape.numel(), stride = std::max<std::int64_t>(1, n / 5);
  for (std::int64_t i = n / 7; i < n; i += stride) {
    constexpr double kStep = 1e-5;
    double& value = leaf.data<double>()[i];
    const double original = value;
    value = original + kStep;
    const double above = loss_of_dit(model);
    value = original - kStep;
    const double below = loss_of_dit(model);
    value = original;
    const double want = has_no_gradient(model.config(), p, i) ? 0 : (above - below) / (2 * kStep);
    // The loss is exact to about 1e-14, which the quotient divides by the step.
    EXPECT_NEAR(test::element(gradient, i), want, 1e-6 * scale + 1e-14 / kStep)
        << p.name << "[" << i << "]";
  }
}

void check_dit(const ModelConfig& c, bool checkpoint_blocks) {
  SCOPED_TRACE(test::title_of_dit(c));
  test::Threads one(1);
  Classifier model(c, 1, DType::kFloat64);
  test::perturb(model.parameters());
  test::image_and_gradients(model, kBatch, DType::kFloat64, checkpoint_blocks);
  for (Parameter& p : model.parameters().parameters()) check_slopes(model, p);
}

TEST(DitGradients, EveryWayOfTheCondition) {
  for (const ModelConfig& c : test::tiny_dits()) check_dit(c, false);
}

TEST(DitGradients, CheckpointedBlocks) {
  for (const ModelConfig& c : test::tiny_dits()) check_dit(c, true);
}

}  // namespace
}  // namespace dtn
