// Learning rates of layers, and of parameters by name.
#include "optim/rates.h"

#include "take_step.h"
#include "tensors.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Two blocks, with one tensor of each kind.
void build(ParameterStore& store) {
  const auto add = [&](const char* name, Decay decay) {
    store.add(name, {3, 5}, InitKind::kTruncatedNormal, decay);
  };
  add("cls_token", Decay::kNo);
  add("pos_embed", Decay::kNo);
  add("patch_embed.proj.weight", Decay::kYes);
  add("norm_pre.weight", Decay::kNo);
  for (const char* block : {"blocks.0.", "blocks.1."}) {
    add(cat(block, "norm1.mean_norm_weight").c_str(), Decay::kNo);
    add(cat(block, "norm1.weight").c_str(), Decay::kNo);
    add(cat(block, "attn.qkv.weight").c_str(), Decay::kYes);
    add(cat(block, "mlp.fc1.weight").c_str(), Decay::kYes);
  }
  add("norm.weight", Decay::kNo);
  add("fc_norm.weight", Decay::kNo);
  add("head.weight", Decay::kYes);
  add("head.bias", Decay::kNo);
  store.allocate();
  store.initialize(1);
  store.gradients().copy_from(as(random_tensor({store.flat_size()}, 1), DType::kFloat32));
}

double factor_of(const OptimConfig& config, const ParameterStore& store, const std::string& name) {
  std::size_t i = 0;
  for (const Parameter& p : store.parameters()) {
    if (p.name == name) return rate_factors(config, store)[i];
    ++i;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(LearningRateFactors, CountLayersFromTokensToHead) {
  for (const char* name : {"cls_token", "reg_token", "dist_token", "pos_embed", "norm_pre.bias",
                           "patch_embed.proj.weight"}) {
    EXPECT_EQ(layer_of(name, 12), 0) << name;
  }
  EXPECT_EQ(layer_of("blocks.0.norm1.weight", 12), 1);
  EXPECT_EQ(layer_of("blocks.11.mlp.fc2.bias", 12), 12);
  EXPECT_EQ(layer_of("norm.weight", 12), 12) << "as the last block";
  for (const char* name : {"fc_norm.weight", "head.weight", "head_dist.bias", "decoder.weight"}) {
    EXPECT_EQ(layer_of(name, 12), 13) << name;
  }
}

TEST(LearningRateFactors, DecayFromHeadToTokens) {
  ParameterStore store;
  build(store);
  OptimConfig config;
  config.layer_decay = 0.5;
  EXPECT_EQ(factor_of(config, store, "pos_embed"), 0.125);
  EXPECT_EQ(factor_of(config, store, "blocks.0.attn.qkv.weight"), 0.25);
  EXPECT_EQ(factor_of(config, store, "blocks.1.norm1.weight"), 0.5);
  EXPECT_EQ(factor_of(config, store, "norm.weight"), 0.5);
  EXPECT_EQ(factor_of(config, store, "fc_norm.weight"), 1);
  EXPECT_EQ(factor_of(config, store, "head.bias"), 1);
}

TEST(LearningRateFactors, UseLastMatchingPattern) {
  ParameterStore store;
  build(store);
  OptimConfig config;
  config.lambda_lr_scale = 100;
  config.lr_multiples = {{"blocks.*", 3}, {"blocks.1.*", 0.5}, {"*.qkv.weight", 7}};
  EXPECT_EQ(factor_of(config, store, "blocks.0.mlp.fc1.weight"), 3);
  EXPECT_EQ(factor_of(config, store, "blocks.1.mlp.fc1.weight"), 0.5);
  EXPECT_EQ(factor_of(config, store, "blocks.1.attn.qkv.weight"), 7);
  EXPECT_EQ(factor_of(config, store, "head.weight"), 1);
  EXPECT_EQ(factor_of(config, store, "blocks.0.norm1.mean_norm_weight"), 3);
  config.lr_multiples.clear();
  EXPECT_EQ(factor_of(config, store, "blocks.0.norm1.mean_norm_weight"), 100);
  config.layer_decay = 0.5;
  EXPECT_EQ(factor_of(config, store, "blocks.0.norm1.mean_norm_weight"), 25) << "both multiply";
}

TEST(LearningRateFactors, RejectPatternsWithoutMatch) {
  ParameterStore store, other;
  build(store);
  other.add("stages.0.weight", {3}, InitKind::kZeros, Decay::kYes);
  other.allocate();
  OptimConfig config;
  config.lr_multiples = {{"haed.*", 3}};
  EXPECT_THROW(make_optimizer(config, store), ConfigError);
  config.lr_multiples.clear();
  config.layer_decay = 0.5;
  EXPECT_THROW(make_optimizer(config, other), ConfigError);
  config.layer_decay.reset();
  config.lambda_lr_scale = 2;
  EXPECT_EQ(rate_factors(config, other), std::vector<double>{1}) << "no lambdas, and no error";
}

TEST(LearningRateFactors, MergeRangesWithEqualFactors) {
  ParameterStore store;
  build(store);
  OptimConfig config;
  std::vector<ParameterRange> ranges = parameter_ranges(config, store);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].end, store.decay_end());
  EXPECT_TRUE(ranges[0].decays);
  EXPECT_EQ(ranges[1].end, store.flat_size());
  EXPECT_FALSE(ranges[1].decays);
  EXPECT_EQ(ranges[0].tensors.size() + ranges[1].tensors.size(), store.parameters().size());
  EXPECT_EQ(make_optimizer(config, store)->rates(), "");

  config.decay = DecayScope::kAll;
  ranges = parameter_ranges(config, store);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_TRUE(ranges[0].decays);
  EXPECT_TRUE(ranges[1].decays);
  config.decay = DecayScope::kMatrices;

  config.layer_decay = 0.5;
  ranges = parameter_ranges(config, store);
  EXPECT_EQ(ranges.size(), 8u) << "tokens, two blocks and the head, of either kind";
  std::int64_t at = 0;
  for (const ParameterRange& range : ranges) {
    EXPECT_EQ(range.begin, at);
    at = range.end;
    for (const auto& [begin, end] : range.tensors) EXPECT_EQ(end - begin, 15);
  }
  EXPECT_EQ(at, store.flat_size());
  EXPECT_EQ(make_optimizer(config, store)->rates(),
            "x 0.125: cls_token, pos_embed, patch_embed, norm_pre; x 0.25: blocks.0; "
            "x 0.5: blocks.1, norm; x 1: fc_norm, head");
  config.layer_decay.reset();
  config.lr_multiples = {{"head.*", 10}, {"norm_pre.*", 10}, {"*.fc1.weight", 0.5}};
  EXPECT_EQ(make_optimizer(config, store)->rates(),
            "x 0.5: 2 tensors like blocks.0.mlp.fc1.weight; x 1: cls_token, pos_embed, "
            "patch_embed, norm, fc_norm, 6 tensors like blocks.0.norm1.mean_norm_weight; "
            "x 10: norm_pre, head");
  config.lr_multiples = {{"blocks.*", 0}};
  EXPECT_EQ(
      make_optimizer(config, store)->rates(),
      "x 0: blocks.0-1; x 1: cls_token, pos_embed, patch_embed, norm_pre, norm, fc_norm, head");
}

// For every optimizer a factor acts as another rate.
TEST(LearningRateFactors, ScaleLearningRate) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    SCOPED_TRACE(row.name());
    OptimConfig config;
    config.name = row.name();
    ParameterStore whole, part;
    for (ParameterStore* store : {&whole, &part}) build(*store);
    const auto plain = make_optimizer(config, whole);
    config.lr_multiples = {{"blocks.0.*", 0.25}, {"head.*", 0}};
    const auto some = make_optimizer(config, part);
    const Tensor before = part.values().clone();
    take_step(*plain, 0.25 * 0.01, 1, 1);
    take_step(*some, 0.01, 1, 1);
    for (const Parameter& p : part.parameters()) {
      const Tensor now = ParameterStore::view(part.values(), p);
      const Tensor slow = ParameterStore::view(whole.values(), p);
      const Tensor start = ParameterStore::view(before, p);
      EXPECT_EQ(same_bits(now, slow), p.name.starts_with("blocks.0.")) << p.name;
      EXPECT_EQ(same_bits(now, start), p.name.starts_with("head.")) << p.name;
    }
  }
}

}  // namespace
}  // namespace dtn
