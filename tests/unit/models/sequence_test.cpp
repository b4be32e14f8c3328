// Sequence models: names and numbers of parameters, initialization, and independence of pads.
#include <cmath>

#include "dtn/models/classifier.h"
#include "dtn/models/complexity.h"
#include "dtn/models/presets.h"
#include "tensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

ModelConfig tiny(const char* preset, const char* norm = "ln") {
  ModelConfig c = preset_registry().at(preset).model;
  c.embed_dim = 24;
  c.depth = 2;
  c.num_heads = 4;
  c.max_length = 70;
  c.norm.type = norm;
  if (c.attention.kind == SequenceAttentionKind::kBigBird) c.attention.block_size = 8;
  if (c.attention.kind == SequenceAttentionKind::kReformer) c.attention.buckets = 4;
  return c;
}

std::int64_t parameters_of(ModelConfig c) { return complexity_of(c).parameters; }

TEST(SequenceModel, MatchesParametersOfLongRangeArena) {
  EXPECT_EQ(parameters_of(preset_registry().at("listops_dense").model), 19983370);
  EXPECT_EQ(parameters_of(preset_registry().at("listops_bigbird").model), 19983370);
  EXPECT_EQ(parameters_of(preset_registry().at("listops_reformer").model), 18410506);
  ModelConfig lra = preset_registry().at("listops_reformer").model;
  lra.attention.variant = SequenceVariant::kLra;
  EXPECT_EQ(parameters_of(lra), 16837642);
  for (const auto& [preset, count] : {std::pair{"listops_dense", 19983946},
                                      {"listops_bigbird", 19983946},
                                      {"listops_reformer", 18411082}}) {
    ModelConfig dtn = preset_registry().at(preset).model;
    dtn.norm.type = "dtn";
    EXPECT_EQ(parameters_of(dtn), count) << preset;
  }
}

TEST(SequenceModel, HasExpectedParameterNames) {
  Classifier model(tiny("listops_dense"), 1);
  for (const char* name :
       {"embed.weight", "cls_token", "blocks.1.norm1.weight", "blocks.1.norm2.bias",
        "blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight", "blocks.0.mlp.fc1.weight",
        "blocks.0.mlp.fc2.bias", "norm.weight", "head.fc1.weight", "head.fc2.bias"}) {
    EXPECT_NE(model.parameters().find(name), nullptr) << name;
  }
  EXPECT_EQ(model.parameters().find("blocks.0.attn.qkv.bias"), nullptr);
  Classifier hashed(tiny("listops_reformer"), 1);
  EXPECT_NE(hashed.parameters().find("blocks.1.attn.qk.weight"), nullptr);
  ASSERT_EQ(hashed.parameters().buffers().size(), 2U);
  EXPECT_EQ(hashed.parameters().buffers()[1].name, "blocks.1.attn.rotations");
}

double spread_of(const Tensor& t) {
  const Doubles v = doubles(t);
  double squares = 0;
  for (double x : v) squares += x * x;
  return std::sqrt(squares / static_cast<double>(v.size()));
}

TEST(SequenceModel, InitializesLikeLongRangeArena) {
  ModelConfig c = preset_registry().at("listops_dense").model;
  c.depth = 1;
  Classifier model(c, 5);
  const auto of = [&](const char* name) { return model.parameters().find(name)->variable.value(); };
  EXPECT_NEAR(spread_of(of("embed.weight")), 1, 0.03);
  EXPECT_EQ(max_abs(doubles(of("cls_token"))), 0);
  const double xavier = std::sqrt(6.0 / (512 + 512)), of_mlp = std::sqrt(6.0 / (512 + 2048));
  EXPECT_LE(max_abs(doubles(of("blocks.0.attn.qkv.weight"))), xavier * (1 + 1e-6));
  EXPECT_NEAR(spread_of(of("blocks.0.attn.qkv.weight")), xavier / std::sqrt(3), 1e-3);
  EXPECT_NEAR(spread_of(of("blocks.0.mlp.fc2.weight")), of_mlp / std::sqrt(3), 1e-3);
  EXPECT_NEAR(spread_of(of("blocks.0.mlp.fc1.bias")), 1e-6, 1e-7);
  EXPECT_NEAR(spread_of(of("head.fc1.weight")), 1 / std::sqrt(512.0), 1e-3);
  EXPECT_LE(max_abs(doubles(of("head.fc1.weight"))), 2.0 / (0.8796 * std::sqrt(512.0)));
  EXPECT_EQ(max_abs(doubles(of("head.fc1.bias"))), 0);
}

const std::vector<std::int64_t> kLengths{61, 7, 30};

// Random words, with `behind` after the end of each sample.
Fields some_words(std::int64_t room, std::int64_t behind) {
  Tensor tokens = Tensor::empty({3, room}, DType::kInt64);
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t t = 0; t < room; ++t) {
      const bool counts = t < kLengths[static_cast<std::size_t>(b)];
      tokens.data<std::int64_t>()[b * room + t] =
          counts ? 1 + (7 * t + 3 * b * t + b) % 15 : behind;
    }
  }
  return {{"tokens", tokens}, {lengths_of("tokens"), Tensor::from(kLengths, {3})}};
}

class SequenceModels : public testing::TestWithParam<const char*> {};

TEST_P(SequenceModels, IgnorePadding) {
  for (const char* norm : {"ln", "bn", "in", "gn", "sn", "scale", "power", "dtn"}) {
    ASSERT_TRUE(norm_registry().find(norm)) << norm;
    Classifier model(tiny(GetParam(), norm), 3);
    Context ctx;
    const Tensor zeros = model.forward(ctx, some_words(70, 0)).value();
    const Tensor words = model.forward(ctx, some_words(70, 9)).value();
    EXPECT_TRUE(same_bits(zeros, words)) << norm;
    EXPECT_GT(max_abs(doubles(zeros)), 0);
  }
}

TEST_P(SequenceModels, LearnFromValidTokensOnly) {
  Classifier model(tiny(GetParam()), 3);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  const Variable logits = model.forward(ctx, some_words(70, 0));
  tape.backward(logits, as(random_tensor(logits.shape(), 1), logits.dtype()));
  for (const Parameter& p : model.parameters().parameters()) {
    const Doubles gradient = doubles(p.variable.grad());
    EXPECT_GT(max_abs(gradient), 0) << p.name;
    if (p.name != "embed.weight") continue;
    const Doubles pad(gradient.begin(), gradient.begin() + 24);
    EXPECT_EQ(max_abs(pad), 0) << "pads learn";
  }
}

Tensor gradients_of(const char* preset, const char* norm, int threads, bool checkpoint) {
  const Threads some(threads);
  Classifier model(tiny(preset, norm), 3);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = true;
  ctx.mode.checkpoint_blocks = checkpoint;
  const Variable logits = model.forward(ctx, some_words(70, 0));
  tape.backward(logits, as(random_tensor(logits.shape(), 1), logits.dtype()));
  return model.parameters().gradients().clone();
}

TEST_P(SequenceModels, SameBitsForAnyThreadsAndWithCheckpointedBlocks) {
  for (const char* norm : {"ln", "dtn", "bn"}) {
    const Tensor one = gradients_of(GetParam(), norm, 1, false);
    EXPECT_TRUE(same_bits(one, gradients_of(GetParam(), norm, 3, false))) << norm;
    EXPECT_TRUE(same_bits(one, gradients_of(GetParam(), norm, 2, true))) << norm;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, SequenceModels,
                         testing::Values("listops_dense", "listops_bigbird", "listops_reformer"),
                         [](const auto& each) { return std::string(each.param); });

// Dense attention stops at the longest sample of a batch.
TEST(SequenceModel, DropoutDoesNotDependOnPadding) {
  Classifier model(tiny("listops_dense"), 3);
  Context ctx;
  ctx.mode.training = true;
  const Tensor all = model.forward(ctx, some_words(70, 0)).value();
  // Without the longest sample, attention stops earlier for the others.
  Fields two = some_words(70, 0);
  Fields fewer{{"tokens", two.at("tokens").slice(1, 3)},
               {lengths_of("tokens"), Tensor::from<std::int64_t>({7, 30}, {2})}};
  ctx.rng.first_sample = 1;
  const Tensor some = model.forward(ctx, fewer).value();
  EXPECT_TRUE(same_bits(all.slice(1, 3), some));
}

TEST(SequenceModel, SupportsLateClassToken) {
  ModelConfig late = tiny("listops_dense");
  late.class_token_at = 1;
  Classifier model(late, 3);
  Context ctx;
  const Tensor y = model.forward(ctx, some_words(70, 0)).value();
  EXPECT_EQ(y.shape(), (Shape{3, 10}));
  Classifier first(tiny("listops_dense"), 3);
  EXPECT_FALSE(same_bits(y, first.forward(ctx, some_words(70, 0)).value()));
}

TEST(SequenceModel, ReportsWhenBigBirdIsDense) {
  ModelConfig c = tiny("listops_bigbird");
  EXPECT_EQ(Classifier(c, 1).note(), "");
  c.attention.block_size = 16;  // 71 tokens are five blocks
  EXPECT_NE(Classifier(c, 1).note().find("71 tokens"), std::string::npos);
  EXPECT_EQ(Classifier(tiny("listops_dense"), 1).note(), "");
}

TEST(SequenceModel, RejectsInvalidLengthsAndTokens) {
  Classifier model(tiny("listops_dense"), 3);
  Context ctx;
  Fields fields = some_words(70, 0);
  fields[lengths_of("tokens")] = Tensor::from<std::int64_t>({61, 0, 30}, {3});
  EXPECT_THROW(model.forward(ctx, fields), Error);
  fields = some_words(70, 0);
  fields.at("tokens").data<std::int64_t>()[0] = 17;
  EXPECT_THROW(model.forward(ctx, fields), Error);
}

}  // namespace
}  // namespace dtn
