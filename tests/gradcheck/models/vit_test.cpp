// The gradient of the whole model's loss against central differences in float64, for elements of
// every parameter.
#include "tiny_vit.h"

namespace dtn {
namespace {

double loss_of(Classifier& model, std::int64_t batch, Context ctx) {
  ctx.mode.compute = DType::kFloat64;
  Variable logits = model.forward(ctx, test::some_images(model.config(), batch, DType::kFloat64));
  return *ops::cross_entropy(ctx, logits, test::some_labels(model.config(), batch))
              .mean.value()
              .data<double>();
}

void check(const ModelConfig& config, const Context& ctx, bool checkpoint_blocks = false) {
  constexpr std::int64_t kBatch = 3;
  test::Threads one(1);  // thousands of tiny passes
  Classifier model(config, 1, DType::kFloat64);
  test::perturb(model.parameters());
  test::logits_and_gradients(model, kBatch, DType::kFloat64, ctx, checkpoint_blocks);
  for (Parameter& p : model.parameters().parameters()) {
    Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
    double scale = test::max_abs(test::doubles(gradient));
    bool inert = p.name.ends_with("pos_proj.bias");
    if (inert) {
      EXPECT_EQ(scale, 0) << p.name;
    } else if (p.name.ends_with("k_norm.bias")) {  // a shift of all keys changes no softmax
      EXPECT_LE(scale, 1e-12) << p.name;
    } else {
      EXPECT_GT(scale, 1e-6) << p.name;
    }
    Tensor leaf = p.variable.value();
    double* value = leaf.data<double>();
    std::int64_t n = p.shape.numel(), stride = std::max<std::int64_t>(1, n / 5);
    for (std::int64_t i = n / 7; i < n; i += stride) {
      double original = value[i], h = 1e-5;
      value[i] = original + h;
      double above = loss_of(model, kBatch, ctx);
      value[i] = original - h;
      double below = loss_of(model, kBatch, ctx);
      value[i] = original;
      double numeric = (above - below) / (2 * h);
      // The loss, about 2, is exact to 1e-15: its difference quotient to 1e-10.
      EXPECT_NEAR(test::element(gradient, i), numeric, 1e-6 * scale + 2e-10)
          << config.preset << ", " << p.name << "[" << i << "]";
    }
  }
}

Context training() {
  Context ctx;
  ctx.mode.training = true;
  ctx.rng.seed = 8;
  ctx.rng.step = 2;
  return ctx;
}

TEST(ModelGradients, PaperFlavour) { check(test::paper_vit(), {}); }
TEST(ModelGradients, DeitFlavour) { check(test::deit_vit(), {}); }
TEST(ModelGradients, DtnBehindAPrefix) {
  check(test::prefix_vit(), {});
  check(test::prefix_vit(), training(), true);
}
TEST(ModelGradients, MeanPooling) { check(test::mean_vit(), {}); }

TEST(ModelGradients, PositionsInTheAttention) {
  check(test::biased_vit(), {});
  ModelConfig c = test::mean_vit();
  c.mhsa_position = true;
  check(c, training(), true);
}

TEST(ModelGradients, OptionsOfPublicCheckpoints) {
  for (ModelConfig c : test::checkpoint_vits()) {
    check(c, {});
    c.drop_path = 0.4;
    check(c, training(), true);
  }
}

TEST(ModelGradients, OptionsBesideDtn) {
  ModelConfig c = test::paper_vit();
  c.layer_scale = 0.5;
  c.registers = 2;
  c.qk_norm = true;
  c.act = MlpActivation::kSilu;
  check(c, {});
}

TEST(ModelGradients, OfficialVariant) {
  ModelConfig c = test::paper_vit();
  c.norm.options = {{"variant", std::string("official")}};
  check(c, {});
}

TEST(ModelGradients, WithDropPathAndDropout) {
  ModelConfig c = test::paper_vit();
  c.drop_path = 0.4;
  check(c, training());
  c.dropout = 0.2;
  check(c, training());
}

TEST(ModelGradients, WithCheckpointedBlocks) { check(test::mean_vit(), training(), true); }

}  // namespace
}  // namespace dtn
