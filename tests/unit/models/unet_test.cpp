// Image-to-image models: sizes, names, passes, conditions and errors.
#include <set>

#include "dtn/models/complexity.h"
#include "dtn/models/weights.h"
#include "texts.h"
#include "tiny_unet.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr std::int64_t kBatch = 2;

struct Size {
  const char* preset;
  FeatureShortcut shortcut;
  std::int64_t parameters;
  double millions;  // of multiply-adds, rounded as below
};

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

TEST(UNetSize, IsExact) {
  using S = FeatureShortcut;
  const std::vector<Size> sizes{{"unet_tiny", S::kNone, 107491, 24.48},
                                {"unet_tiny", S::kMoments, 107491, 24.48},
                                {"unet_tiny", S::kConcat, 119011, 29.20},
                                {"unet_tiny", S::kDynamicMoments, 122019, 31.92},
                                {"unet_small", S::kNone, 1755587, 2218},
                                {"unet_small", S::kConcat, 1949123, 2671},
                                {"unet_small", S::kDynamicMoments, 1886883, 2759},
                                {"unet_base", S::kNone, 7013251, 35257},
                                {"unet_base", S::kConcat, 7787395, 42505},
                                {"unet_base", S::kDynamicMoments, 7533891, 43812},
                                {"resnet_9", S::kNone, 11368067, 55793},
                                {"resnet_9", S::kConcat, 11552387, 60624},
                                {"resnet_9", S::kDynamicMoments, 11888707, 64347}};
  for (const Size& want : sizes) {
    ModelConfig c = unet_preset(want.preset);
    c.shortcut = want.shortcut;
    SCOPED_TRACE(title_of_unet(c));
    const Complexity got = complexity_of(c);
    EXPECT_EQ(got.parameters, want.parameters);
    const double unit = want.millions < 100 ? 0.01 : 1;
    EXPECT_NEAR(rounded(got.multiply_adds / 1e6, unit), want.millions, 1e-6);
  }
}

TEST(UNetSize, OfGrayImages) {
  ModelConfig c = unet_preset("unet_tiny");
  c.image_size = 28;
  c.channels = 1;
  EXPECT_EQ(complexity_of(c).parameters, 118433);
  EXPECT_NEAR(rounded(complexity_of(c).multiply_adds / 1e6, 0.01), 21.90, 1e-6);
}

struct ConditionalSize {
  const char* norm;
  std::optional<ConditionFrom> from;
  std::int64_t size, styles, option;
  std::int64_t parameters;
  double millions;
};

TEST(UNetSize, OfConditionalNormsIsExact) {
  using From = ConditionFrom;
  const std::vector<ConditionalSize> sizes{{"cin", From::kIndex, 0, 8, 0, 120355, 29.20},
                                           {"adain", From::kImage, 0, 0, 0, 118819, 39.08},
                                           {"adain_mlp", From::kIndex, 8, 8, 0, 136099, 0},
                                           {"adain_mlp", From::kImage, 8, 0, 0, 141387, 0},
                                           {"cbn", From::kVector, 8, 0, 32, 126499, 0},
                                           {"adaln", From::kVector, 8, 0, 0, 120547, 0},
                                           {"spade", std::nullopt, 8, 0, 32, 183651, 63.41},
                                           {"dln", std::nullopt, 0, 0, 16, 123683, 29.99}};
  for (const ConditionalSize& want : sizes) {
    ModelConfig c = unet_preset("unet_tiny");
    c.decoder_norm.emplace();
    c.decoder_norm->type = want.norm;
    const char* option = c.decoder_norm->type == "dln" ? "summary" : "hidden";
    if (want.option > 0) c.decoder_norm->options.push_back({option, want.option});
    c.condition.from = want.from;
    if (want.size > 0) c.condition.size = want.size;
    if (want.styles > 0) c.condition.styles = want.styles;
    SCOPED_TRACE(title_of_unet(c));
    const Complexity got = complexity_of(c);
    EXPECT_EQ(got.parameters, want.parameters);
    if (want.millions > 0) {
      EXPECT_NEAR(rounded(got.multiply_adds / 1e6, 0.01), want.millions, 1e-6);
    }
    if (c.decoder_norm->type != "cbn") continue;
    c.norm = *c.decoder_norm;
    EXPECT_EQ(complexity_of(c).parameters, 143011);
  }
}

TEST(UNet, HasTheNamesOfItsParts) {
  ModelConfig c = tiny_unet_with(FeatureShortcut::kDynamicMoments);
  c.bottleneck = 1;
  Classifier model(c, 1);
  std::set<std::string> names;
  for (const Parameter& p : model.parameters().parameters()) names.insert(p.name);
  std::set<std::string> want;
  for (const char* unit :
       {"enc.0.0", "enc.0.1", "enc.1.0", "mid.0.0", "mid.0.1", "dec.0.0", "dec.0.1"}) {
    for (const char* part : {"conv.weight", "norm.weight", "norm.bias"}) {
      want.insert(cat(unit, ".", part));
    }
  }
  for (const char* level : {"shortcut.0", "shortcut.1"}) {
    for (const char* part : {"hidden", "modulation"}) {
      want.insert(cat(level, ".", part, ".weight"));
      want.insert(cat(level, ".", part, ".bias"));
    }
  }
  want.insert({"head.weight", "head.bias"});
  EXPECT_EQ(names, want);
}

TEST(UNet, HasBiasesWithoutNorms) {
  Classifier model(tiny_unet("none"), 1);
  EXPECT_NE(model.parameters().find("enc.0.0.conv.bias"), nullptr);
  EXPECT_EQ(model.parameters().find("enc.0.0.norm.weight"), nullptr);
  EXPECT_EQ(max_abs(doubles(model.parameters().find("enc.0.0.conv.bias")->variable.value())), 0);
}

TEST(UNet, FirstOutputOfAResidualModelIsItsInput) {
  ModelConfig c = tiny_unet();
  c.residual = true;
  Classifier model(c, 1);
  Context ctx;
  for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
    ctx.mode.compute = compute;
    if (compute == DType::kBFloat16) model.parameters().enable_bfloat16();
    const Fields inputs = unet_inputs(c, kBatch, DType::kFloat32);
    const Tensor output = image_model(model).image(ctx, inputs).value();
    EXPECT_EQ(doubles(output), doubles(inputs.at("input"))) << name_of(compute);
  }
}

// A sample's output depends on its own condition alone; BatchNorm's statistics are fixed.
TEST(UNet, ConditionChangesItsSample) {
  for (const ModelConfig& c : tiny_unets()) {
    const std::vector<FieldSpec> fields = condition_fields(c);
    if (fields.empty()) continue;
    SCOPED_TRACE(title_of_unet(c));
    Classifier model(c, 1);
    perturb(model.parameters());
    Fields inputs = unet_inputs(c, kBatch, DType::kFloat32);
    Context ctx;
    const Tensor before = image_model(model).image(ctx, inputs).value();
    Tensor& condition = inputs[fields.front().name];
    Tensor row = condition.slice(1, 2);
    if (row.dtype() == DType::kInt64) {
      row.data<std::int64_t>()[0] = 0;  // was 2
    } else {
      row.copy_from(as(random_tensor(row.shape(), 5), DType::kFloat32));
    }
    const Tensor after = image_model(model).image(ctx, inputs).value();
    EXPECT_EQ(doubles(before.slice(0, 1)), doubles(after.slice(0, 1)));
    EXPECT_GT(max_abs_difference(doubles(before.slice(1, 2)), doubles(after.slice(1, 2))), 1e-4);
  }
}

TEST(UNet, CheckpointedBlocksGiveTheSameGradients) {
  for (const ModelConfig& c : tiny_unets()) {
    SCOPED_TRACE(title_of_unet(c));
    Classifier model(c, 1);
    perturb(model.parameters());
    const Tensor image = unet_image_and_gradients(model, kBatch, DType::kFloat32);
    const Tensor gradients = model.parameters().gradients().clone();
    const Tensor again = unet_image_and_gradients(model, kBatch, DType::kFloat32, true);
    EXPECT_EQ(doubles(image), doubles(again));
    EXPECT_EQ(doubles(gradients), doubles(model.parameters().gradients()));
  }
}

struct ConvolutionCounter : Observer {
  void begin_layer(const Tensor&, const TokenGrid&) override { ++begun; }
  void convolved(const Tensor&, const TokenGrid&) override { ++convolutions; }
  void end_layer(const Tensor&, const TokenGrid&) override { ++ended; }
  std::size_t begun = 0, convolutions = 0, ended = 0;
};

TEST(UNet, ShowsEveryConvolutionAndChangesNothing) {
  for (const ModelConfig& config : tiny_unets()) {
    SCOPED_TRACE(title_of_unet(config));
    Classifier model(config, 1);
    perturb(model.parameters());
    const Fields inputs = unet_inputs(config, kBatch, DType::kFloat32);
    Context ctx;
    const Doubles alone = doubles(image_model(model).image(ctx, inputs).value());
    ConvolutionCounter counter;
    ctx.observer = &counter;
    EXPECT_EQ(doubles(image_model(model).image(ctx, inputs).value()), alone);
    const std::size_t layers = model.backbone().layers().size();
    EXPECT_EQ(counter.begun, layers);
    EXPECT_EQ(counter.convolutions, layers);
    EXPECT_EQ(counter.ended, layers);
  }
}

TEST(UNet, TakesImagesOfOtherSizes) {
  Classifier model(tiny_unet(), 1);
  EXPECT_EQ(model.backbone().size_problem({10, 14}), "");
  EXPECT_NE(model.backbone().size_problem({10, 13}), "");
  Context ctx;
  const Tensor images = as(random_tensor({1, 2, 10, 14}, 3), DType::kFloat32);
  EXPECT_EQ(image_model(model).image(ctx, {{"input", images}}).shape(), Shape({1, 2, 10, 14}));
  const Tensor odd = as(random_tensor({1, 2, 10, 13}, 3), DType::kFloat32);
  EXPECT_THROW(image_model(model).image(ctx, {{"input", odd}}), ConfigError);
}

TEST(UNet, HasNoHeadForClasses) {
  Classifier model(tiny_unet(), 1);
  ParameterStore store;
  EXPECT_THROW(model.backbone().make_heads(Scope{store}, 5), ConfigError);
}

TEST(UNet, RefusesInvalidConfigs) {
  const auto refuses = [](const ModelConfig& c, const std::string& why) {
    expect_error<ConfigError>([&] { Classifier(c, 1); }, {why});
  };
  ModelConfig c = tiny_unet();
  EXPECT_NO_THROW(Classifier(c, 1));
  c.embed_dim = PerStage<int>{8, 12};
  refuses(c, "multiple of 8");
  c = tiny_unet();
  c.image_size = {5, 6};
  refuses(c, "multiples of 2");
  c = tiny_unet();
  c.residual = true;
  c.out_channels = 1;
  refuses(c, "model.residual");
  c = tiny_unet();
  c.embed_dim = PerStage<int>{8};
  c.depth = PerStage<int>{1};
  refuses(c, "nothing to join");
  c.shortcut = FeatureShortcut::kNone;
  EXPECT_NO_THROW(Classifier(c, 1));
  c = tiny_unet("adain");
  refuses(c, "decoder_norm");
  c = conditional_unet("cin", ConditionFrom::kIndex);
  c.condition.styles.reset();
  refuses(c, "condition.styles");
  c = conditional_unet("spade", std::nullopt);
  c.condition.size.reset();
  refuses(c, "condition.size");
  c = conditional_unet("cbn", std::nullopt);
  refuses(c, "condition.from");
  c = conditional_unet("adain", ConditionFrom::kIndex);
  refuses(c, "image");
  c = conditional_unet("adain", ConditionFrom::kImage);
  c.norm.type = "cbn";
  refuses(c, "has no condition");
}

}  // namespace
}  // namespace dtn
