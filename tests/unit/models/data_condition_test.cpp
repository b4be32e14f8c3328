// Vision transformers whose gains and shifts come from a condition in the data.
#include "texts.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr std::int64_t kBatch = 4;

Fields inputs_of(const ModelConfig& c) {
  return some_inputs(c, kBatch, DType::kFloat32, c.image_size);
}

Tensor logits_of(Classifier& model, const Fields& inputs, Context ctx = {}) {
  return model.forward(ctx, inputs).value();
}

// Copies the values of parameters with the same names.
void copy_parameters(Classifier& from, Classifier& to) {
  for (const Parameter& p : to.parameters().parameters()) {
    Parameter* same = from.parameters().find(p.name);
    if (!same) continue;
    Tensor value = p.variable.value();
    value.copy_from(same->variable.value());
  }
}

TEST(DataCondition, AddsModulationsAndTable) {
  Classifier model(adaptive_vit(), 1);
  ParameterStore& store = model.parameters();
  ASSERT_NE(store.find("condition.table.weight"), nullptr);
  EXPECT_EQ(store.find("condition.table.weight")->shape, Shape({3, 6}));
  EXPECT_EQ(store.find("condition.table.weight")->decay, Decay::kYes);
  for (const char* site : {"blocks.0.norm1", "blocks.2.norm2"}) {
    ASSERT_NE(store.find(cat(site, ".modulation.weight")), nullptr) << site;
    EXPECT_EQ(store.find(cat(site, ".modulation.weight"))->shape, Shape({40, 6}));
    EXPECT_EQ(store.find(cat(site, ".modulation.bias"))->shape, Shape({40}));
    EXPECT_EQ(store.find(cat(site, ".weight")), nullptr) << site;
  }
  ModelConfig wide = adaptive_vit();
  wide.condition.size.reset();
  EXPECT_EQ(Classifier(wide, 1).parameters().find("condition.table.weight")->shape, Shape({3, 20}));
}

// The modulations are initially 0, so the model is one with LayerNorm without gain and shift.
TEST(DataCondition, StartsAsLayerNorm) {
  ModelConfig plain_config = adaptive_vit();
  plain_config.norm.type = "ln";
  plain_config.norm.affine = false;
  plain_config.condition = {};
  Classifier adaptive(adaptive_vit(), 1), plain(plain_config, 2);
  copy_parameters(adaptive, plain);
  const Fields inputs = inputs_of(adaptive_vit());
  EXPECT_LE(
      max_abs_difference(doubles(logits_of(adaptive, inputs)), doubles(logits_of(plain, inputs))),
      1e-5);
}

TEST(DataCondition, ChangesResults) {
  Classifier model(adaptive_vit(), 1);
  perturb(model.parameters());
  Fields inputs = inputs_of(adaptive_vit());
  const Doubles before = doubles(logits_of(model, inputs));
  inputs["style"].data<std::int64_t>()[1] = 2;  // was 1
  const Doubles after = doubles(logits_of(model, inputs));
  const std::size_t classes = before.size() / kBatch;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i / classes == 1) {
      EXPECT_NE(before[i], after[i]) << i;
    } else {
      EXPECT_EQ(before[i], after[i]) << i << ", of another sample";
    }
  }
}

// An index gives the same results as its vector.
TEST(DataCondition, IndexStandsForItsVector) {
  ModelConfig by_vector = adaptive_vit();
  by_vector.condition.from = ConditionFrom::kVector;
  by_vector.condition.styles.reset();
  Classifier index(adaptive_vit(), 1), vector(by_vector, 2);
  perturb(index.parameters());
  copy_parameters(index, vector);
  Fields inputs = inputs_of(adaptive_vit());
  const Doubles want = doubles(logits_of(index, inputs));
  const Tensor table = index.parameters().find("condition.table.weight")->variable.value();
  Tensor vectors = Tensor::empty({kBatch, 6}, DType::kFloat32);
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const std::int64_t style = inputs["style"].data<std::int64_t>()[i];
    vectors.slice(i, i + 1).copy_from(table.slice(style, style + 1));
  }
  EXPECT_EQ(doubles(logits_of(vector, {{"image", inputs["image"]}, {"vector", vectors}})), want);
}

// Neither the class token's short path through the last block nor checkpoints change results.
TEST(DataCondition, ShortPathAndCheckpointsChangeNothing) {
  Classifier model(adaptive_vit(), 1);
  perturb(model.parameters());
  Context whole;
  whole.mode.skip_unread = false;
  const Fields inputs = inputs_of(adaptive_vit());
  EXPECT_LE(max_abs_difference(doubles(logits_of(model, inputs)),
                               doubles(logits_of(model, inputs, whole))),
            1e-5);
  const auto gradients = [&](bool checkpoint_blocks) {
    logits_and_gradients(model, kBatch, DType::kFloat32, {}, checkpoint_blocks);
    return doubles(model.parameters().gradients());
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(DataCondition, IsTheSameForAnyNumberOfThreads) {
  Classifier model(adaptive_vit(), 1);
  perturb(model.parameters());
  const auto run = [&](int count) {
    Threads threads(count);
    logits_and_gradients(model, kBatch, DType::kFloat32, {});
    return doubles(model.parameters().gradients());
  };
  const Doubles one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(3), one);
}

TEST(DataCondition, MustBeInTheBatch) {
  Classifier model(adaptive_vit(), 1);
  const Fields inputs = inputs_of(adaptive_vit());
  const auto run = [&](Fields fields) { return [&model, fields] { logits_of(model, fields); }; };
  expect_error<ConfigError>(run({{"image", inputs.at("image")}}), {"`style`", "gives it none"});
  expect_error<Error>(
      run({{"image", inputs.at("image")}, {"style", Tensor::zeros({2}, DType::kInt64)}}),
      {"`style`", "[2]", "[4]"});
  expect_error<Error>(
      run({{"image", inputs.at("image")}, {"style", Tensor::full({kBatch}, DType::kInt64, 3)}}),
      {"3"});
}

TEST(DataCondition, IsCheckedWhenTheModelIsBuilt) {
  const auto build = [](auto change) {
    ModelConfig c = adaptive_vit();
    change(c);
    return [c] { Classifier model(c, 1); };
  };
  expect_error<ConfigError>(build([](ModelConfig& c) { c.condition = {}; }),
                            {"'adaln'", "model.condition.from"});
  expect_error<ConfigError>(build([](ModelConfig& c) { c.norm.type = "ln"; }),
                            {"no block reads model.condition.from"});
  expect_error<ConfigError>(build([](ModelConfig& c) { c.condition.styles.reset(); }),
                            {"set model.condition.styles"});
  expect_error<ConfigError>(
      build([](ModelConfig& c) { c.condition.from = ConditionFrom::kVector; }),
      {"model.condition.styles is for"});
  expect_error<ConfigError>(build([](ModelConfig& c) { c.norm.affine = true; }),
                            {"adaln takes its gain and shift from the condition"});
}

}  // namespace
}  // namespace dtn
