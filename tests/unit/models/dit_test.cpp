// Diffusion transformers: sizes, initial values, names, inputs, passes and errors.
#include <algorithm>
#include <cmath>
#include <set>

#include "dtn/models/complexity.h"
#include "dtn/models/weights.h"
#include "grad_ready_recorder.h"
#include "tiny_dit.h"

namespace dtn {
namespace {

ModelConfig preset(const std::string& name) { return preset_registry().at(name).model; }

struct Size {
  const char* preset;
  std::int64_t parameters, multiply_adds;
};

// The parameters are those of the public code, with the fixed positions. Multiply-adds:
// depth (12 T D^2 + 2 T^2 D + 6 D^2) + T D p^2 (C + Co) + 256 D + 3 D^2.
TEST(DitSize, IsExact) {
  for (const Size& want :
       {Size{"dit_s_2", 32963360, 6055673856}, Size{"dit_s_4", 32945024, 1412579328},
        Size{"dit_s_8", 33148160, 357974016}, Size{"dit_b_2", 130512416, 23005102080},
        Size{"dit_b_4", 130475648, 5565186048}, Size{"dit_b_8", 130881536, 1417543680},
        Size{"dit_l_2", 458102816, 80697622528}, Size{"dit_l_4", 458053760, 19695665152},
        Size{"dit_l_8", 458594816, 5011406848}, Size{"dit_xl_2", 675129632, 118621421568},
        Size{"dit_xl_4", 675074432, 29043671040}, Size{"dit_xl_8", 675683072, 7392411648},
        Size{"dit_tiny", 730864, 23943936}}) {
    const Complexity got = complexity_of(preset(want.preset));
    EXPECT_EQ(got.parameters, want.parameters) << want.preset;
    EXPECT_EQ(got.multiply_adds, static_cast<double>(want.multiply_adds)) << want.preset;
    EXPECT_EQ(got.paper_multiply_adds, got.multiply_adds) << want.preset;
  }
}

TEST(DitSize, OfVariantsIsExact) {
  ModelConfig c = preset("dit_s_2");
  c.norm.type = "dtn";
  EXPECT_EQ(complexity_of(c).parameters, 32964224);
  c.norm.layers = 3;  // 36 parameters of DTN for each of two norms
  EXPECT_EQ(complexity_of(c).parameters, 32963360 + 3 * 2 * 36);
  c = preset("dit_s_2");
  c.norm.affine = true;
  EXPECT_EQ(complexity_of(c).parameters, 32963360 + 12 * 2 * 2 * 384);
  c = preset("dit_s_2");
  c.label_dropout = 0;
  EXPECT_EQ(complexity_of(c).parameters, 32963360 - 384);
  c.num_classes = 0;
  EXPECT_EQ(complexity_of(c).parameters, 32963360 - 1001 * 384);
  c = preset("dit_s_2");
  c.condition.into = ConditionInto::kAdaln;
  EXPECT_EQ(complexity_of(c).parameters, 32963360 - 12 * 2 * (384 + 1) * 384);
}

double deviation(const test::Doubles& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Dit, InitialValuesAreThoseOfThePublicCode) {
  Classifier model(preset("dit_tiny"), 3);
  for (const Parameter& p : model.parameters().parameters()) {
    SCOPED_TRACE(p.name);
    const test::Doubles values = test::doubles(p.variable.value());
    const double largest = test::max_abs(values);
    if (p.name == "pos_embed") continue;
    if (p.name.ends_with(".bias") || p.name.find("adaLN") != std::string::npos ||
        p.name == "final_layer.linear.weight") {
      EXPECT_EQ(largest, 0);
    } else if (p.name.starts_with("t_embedder") || p.name.starts_with("y_embedder")) {
      EXPECT_NEAR(deviation(values), 0.02, 2e-3);
    } else {
      const std::int64_t out = p.shape[0], in = p.shape.numel() / out;
      const double bound = std::sqrt(6 / static_cast<double>(in + out));
      EXPECT_LE(largest, bound * (1 + 1e-6));
      EXPECT_GT(largest, 0.98 * bound);
      EXPECT_NEAR(deviation(values), bound / std::sqrt(3.0), 0.03 * bound);
    }
  }
}

TEST(Dit, FirstImageIsZero) {
  for (const ModelConfig& c : test::tiny_dits()) {
    SCOPED_TRACE(test::title_of_dit(c));
    Classifier model(c, 1);
    const Tensor image = test::image_and_gradients(model, 2, DType::kFloat32);
    EXPECT_EQ(image.shape(), Shape({2, c.learn_sigma ? 4 : 2, 4, 6}));
    EXPECT_EQ(test::max_abs(test::doubles(image)), 0);
    for (const Parameter& p : model.parameters().parameters()) {
      const Tensor gradient = ParameterStore::view(model.parameters().gradients(), p);
      EXPECT_EQ(test::max_abs(test::doubles(gradient)) > 0,
                p.name.starts_with("final_layer.linear."))
          << p.name;
    }
  }
}

TEST(Dit, HasPublicParameterNames) {
  std::set<std::string> names;
  Classifier model(preset("dit_xl_2"), 0, DType::kFloat32, kMeta);
  for (const Parameter& p : model.parameters().parameters()) names.insert(p.name);
  EXPECT_TRUE(model.parameters().buffers().empty());
  std::set<std::string> want{"pos_embed",
                             "x_embedder.proj.weight",
                             "x_embedder.proj.bias",
                             "t_embedder.mlp.0.weight",
                             "t_embedder.mlp.0.bias",
                             "t_embedder.mlp.2.weight",
                             "t_embedder.mlp.2.bias",
                             "y_embedder.embedding_table.weight",
                             "final_layer.linear.weight",
                             "final_layer.linear.bias",
                             "final_layer.adaLN_modulation.1.weight",
                             "final_layer.adaLN_modulation.1.bias"};
  for (int i = 0; i < 28; ++i) {
    for (const char* module :
         {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "adaLN_modulation.1"}) {
      for (const char* part : {".weight", ".bias"}) {
        want.insert(cat("blocks.", i, ".", module, part));
      }
    }
  }
  EXPECT_EQ(names, want);
}

// The first half of the channels encodes the column; sines come before cosines.
TEST(Dit, PositionsAreFixed) {
  Classifier model(test::tiny_dit(ConditionInto::kAdalnZero), 1, DType::kFloat64);
  const Parameter& p = *model.parameters().find("pos_embed");
  EXPECT_TRUE(p.frozen);
  EXPECT_EQ(p.shape, Shape({1, 6, 20}));
  const test::Doubles values = test::doubles(p.variable.value());
  for (std::size_t t = 0; t < 6; ++t) {
    const double column = static_cast<double>(t % 3), row = static_cast<double>(t / 3);
    for (std::size_t k = 0; k < 5; ++k) {
      const double w = std::pow(10000.0, -static_cast<double>(k) / 5);
      const double* at = values.data() + 20 * t + k;
      EXPECT_NEAR(at[0], std::sin(column * w), 1e-15);
      EXPECT_NEAR(at[5], std::cos(column * w), 1e-15);
      EXPECT_NEAR(at[10], std::sin(row * w), 1e-15);
      EXPECT_NEAR(at[15], std::cos(row * w), 1e-15);
    }
  }
  for (const FlatRange& live : model.parameters().live_ranges()) {
    EXPECT_TRUE(live.end <= p.offset || live.begin > p.offset) << "it would be trained";
  }
}

TEST(Dit, ReadsImageNoiseLevelAndLabel) {
  const ModelConfig c = test::tiny_dit(ConditionInto::kAdalnZero);
  Classifier model(c, 1);
  test::perturb(model.parameters());
  const std::vector<FieldSpec> want{
      {"image", {2, 4, 6}}, {"timestep", {}, DType::kInt64}, {"label", {}, DType::kInt64}};
  EXPECT_EQ(model.backbone().inputs(), want);
  Context ctx;
  const auto image = [&](const Fields& fields) {
    return test::doubles(test::image_model(model).image(ctx, fields).value());
  };
  Fields fields = test::dit_inputs(c, 2, DType::kFloat32);
  const test::Doubles usual = image(fields);
  for (const char* field : {"timestep", "label"}) {
    Fields other = fields;
    other[field] = fields.at(field).clone();
    other[field].data<std::int64_t>()[1] -= 1;
    const test::Doubles changed = image(other);
    const std::size_t half = usual.size() / 2;
    for (std::size_t i = 0; i < half; ++i) EXPECT_EQ(changed[i], usual[i]) << "of sample 0";
    EXPECT_GT(test::max_abs_difference(changed, usual), 1e-3) << field;
  }
}

TEST(Dit, RejectsWrongInputs) {
  const ModelConfig c = test::tiny_dit(ConditionInto::kAdalnZero);
  Classifier model(c, 1);
  Context ctx;
  const auto error = [&](const char* field, Tensor value) -> std::string {
    Fields fields = test::dit_inputs(c, 2, DType::kFloat32);
    fields[field] = std::move(value);
    try {
      test::image_model(model).image(ctx, fields);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  expect(error("timestep", Tensor::zeros({2}, DType::kFloat32)), "not int64");
  expect(error("label", Tensor::zeros({3}, DType::kInt64)), "labels are int64 [3]");
  Tensor outside = Tensor::zeros({2}, DType::kInt64);
  outside.data<std::int64_t>()[1] = 6;
  expect(error("label", outside), "index 6 of sample 1 is outside [0, 6)");
  expect(error("image", Tensor::zeros({2, 2, 6, 4}, DType::kFloat32)), "[B, 2, 4, 6]");
}

TEST(Dit, ReadsLabelsAndHasNoHead) {
  Classifier model(preset("dit_tiny"), 0, DType::kFloat32, kMeta);
  EXPECT_EQ(model.outputs(), 96) << "the features";
  ParameterStore store;
  EXPECT_THROW(model.backbone().make_heads(Scope{store}, 10), ConfigError);
}

TEST(Dit, FeaturesAreTokensBeforeLastLayer) {
  const ModelConfig c = test::tiny_dit(ConditionInto::kInContext, "dtn");
  Classifier model(c, 1);
  test::perturb(model.parameters());
  Context ctx;
  const Fields fields = test::dit_inputs(c, 2, DType::kFloat32);
  const Features features = model.backbone().forward(ctx, fields);
  ASSERT_EQ(features.size(), 1u);
  EXPECT_EQ(features[0].x.shape(), Shape({2, 6, 20})) << "the condition's tokens are left out";
  const auto tokens = test::doubles(features[0].x.value());
  const auto pooled = test::doubles(model.backbone().pooled(ctx, fields).value());
  double sum = 0;
  for (std::size_t t = 0; t < 6; ++t) sum += tokens[20 * t + 3];
  EXPECT_NEAR(pooled[3], sum / 6, 1e-5);
}

TEST(Dit, ReportsEveryGradientOnce) {
  for (const ModelConfig& c : test::tiny_dits()) {
    SCOPED_TRACE(test::title_of_dit(c));
    Classifier model(c, 1);
    test::perturb(model.parameters());
    // The positions have no gradient to report.
    ParameterStore& store = model.parameters();
    std::map<std::string, int> reports;
    for (Parameter& p : store.parameters()) {
      if (p.frozen) continue;
      p.variable.sink()->on_grad_ready([&reports, &p] { ++reports[p.name]; });
    }
    for (const bool checkpointed : {false, true}) {
      reports.clear();
      test::image_and_gradients(model, 3, DType::kFloat32, checkpointed);
      for (Parameter& p : store.parameters()) {
        if (p.frozen) continue;
        // The bias of DTN's positions changes nothing.
        if (!p.name.ends_with("pos_proj.bias")) {
          EXPECT_EQ(reports[p.name], 1) << p.name;
        }
        EXPECT_EQ(p.variable.sink()->uses(), 0) << p.name;
      }
    }
  }
}

TEST(Dit, SameBitsWithThreadsAndCheckpoints) {
  for (const ModelConfig& c : test::tiny_dits()) {
    SCOPED_TRACE(test::title_of_dit(c));
    for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
      Classifier model(c, 1);
      test::perturb(model.parameters(), 0.1);
      if (compute == DType::kBFloat16) model.parameters().enable_bfloat16();
      Tensor image, gradients;
      for (const int threads : {1, 2, 3}) {
        for (const bool checkpointed : {false, true}) {
          test::Threads scope(threads);
          const Tensor got = test::image_and_gradients(model, 5, compute, checkpointed);
          if (!image.defined()) {
            image = got;
            gradients = model.parameters().gradients().clone();
            EXPECT_GT(test::max_abs(test::doubles(gradients)), 0);
          }
          EXPECT_TRUE(test::same_bits(got, image)) << threads << ", " << checkpointed;
          EXPECT_TRUE(test::same_bits(model.parameters().gradients(), gradients))
              << threads << ", " << checkpointed;
        }
      }
    }
  }
}

// Counts what it is shown.
struct Counter final : Observer {
  int layers = 0, norms = 0, attentions = 0, branches = 0, ends = 0;
  void begin_layer(const Tensor&, const TokenGrid&) override { ++layers; }
  void normalized(const Normalizer&, const Tensor& x, const Tensor& y, const TokenGrid&) override {
    ++norms;
    EXPECT_EQ(x.shape(), y.shape());
  }
  void attention(const AttentionView&) override { ++attentions; }
  void branch(Branch, const Tensor&, const TokenGrid&) override { ++branches; }
  void end_layer(const Tensor&, const TokenGrid&) override { ++ends; }
};

TEST(Dit, ShowsItsLayersAndComputesTheSameBits) {
  for (const ModelConfig& c : test::tiny_dits()) {
    SCOPED_TRACE(test::title_of_dit(c));
    Classifier model(c, 1);
    test::perturb(model.parameters());
    const Fields fields = test::dit_inputs(c, 2, DType::kFloat32);
    Context ctx;
    const Tensor plain = test::image_model(model).image(ctx, fields).value();
    Counter counter;
    ctx.observer = &counter;
    EXPECT_TRUE(test::same_bits(test::image_model(model).image(ctx, fields).value(), plain));
    const int norms = c.condition.into == ConditionInto::kCrossAttention ? 3 : 2;
    EXPECT_EQ(counter.layers, 2);
    EXPECT_EQ(counter.norms, 2 * norms);
    EXPECT_EQ(counter.attentions, 2);
    EXPECT_EQ(counter.branches, 4);
    EXPECT_EQ(counter.ends, 2);
    const std::vector<LayerInfo> layers = model.backbone().layers();
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[1].paths, std::vector<std::string>{"blocks.1"});
    EXPECT_EQ(std::ssize(layers[1].norms), norms);
    for (const std::string& path : layers[1].attention) {
      EXPECT_NE(model.parameters().find(path + ".proj.weight"), nullptr) << path;
    }
  }
}

// About sixty rounded results precede a pixel, whose errors add up like a random walk.
TEST(Dit, Bfloat16IsCloseToFloat32) {
  for (const ModelConfig& c : test::tiny_dits()) {
    SCOPED_TRACE(test::title_of_dit(c));
    Classifier model(c, 1);
    test::perturb(model.parameters());
    model.parameters().enable_bfloat16();
    const auto full = test::doubles(test::image_and_gradients(model, 4, DType::kFloat32));
    const auto low = test::doubles(test::image_and_gradients(model, 4, DType::kBFloat16));
    const double tolerance =
        4 * std::sqrt(60.0) * test::unit_roundoff(DType::kBFloat16) / std::sqrt(3.0);
    EXPECT_LE(test::max_abs_difference(full, low), tolerance * test::max_abs(full));
    EXPECT_NE(full, low);
  }
}

}  // namespace
}  // namespace dtn
