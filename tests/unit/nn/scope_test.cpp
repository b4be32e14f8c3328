// Names of parameters, and the random streams that depend on them.
#include "dtn/nn/scope.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "dtn/nn/normalizer.h"

namespace dtn {
namespace {

TEST(Scope, JoinsPathComponents) {
  ParameterStore store;
  const Scope model(store);
  EXPECT_EQ(model.path, "");
  EXPECT_EQ(model.name("cls_token"), "cls_token");
  const Scope attention = model / "blocks" / 3 / "attn";
  EXPECT_EQ(attention.path, "blocks.3.attn");
  EXPECT_EQ(attention.name("qkv.weight"), "blocks.3.attn.qkv.weight");
  EXPECT_EQ(&attention.store, &store);
}

TEST(Scope, PassesRegistryOn) {
  ParameterStore store;
  EXPECT_EQ((Scope(store) / "blocks").norms, nullptr);
  const NormRegistry mine({});
  EXPECT_EQ((Scope(store, "", &mine) / "blocks" / 0).norms, &mine);
}

TEST(Scope, AddsRequestedParameters) {
  ParameterStore store;
  const Scope norm = Scope(store) / "norm1";
  Parameter* weight = norm.weight("weight", {4}, InitKind::kOnes);
  Parameter* matrix = norm.weight("matrix", {2, 3}, InitKind::kTruncatedNormal, Decay::kYes);
  std::string filled;
  Parameter* custom = norm.weight(
      "custom", {2},
      [&filled](Tensor& value, std::uint64_t, const std::string& name) {
        filled = name;
        value.data<float>()[1] = 5;
      },
      Decay::kYes);
  Buffer* mean = norm.buffer("running_mean", {4}, InitKind::kZeros);
  EXPECT_EQ(weight->name, "norm1.weight");
  EXPECT_EQ(weight->decay, Decay::kNo);
  EXPECT_EQ(matrix->decay, Decay::kYes);
  EXPECT_EQ(custom->decay, Decay::kYes);
  EXPECT_EQ(mean->name, "norm1.running_mean");
  EXPECT_THROW(norm.weight("weight", {4}, InitKind::kOnes), Error) << "the name is taken";
  EXPECT_THROW(norm.buffer("weight", {4}, InitKind::kZeros), Error);
  store.allocate();
  store.initialize(1);
  EXPECT_EQ(filled, "norm1.custom");
  EXPECT_EQ(custom->variable.value().data<float>()[1], 5);
  EXPECT_EQ(weight->variable.value().data<float>()[3], 1);
  EXPECT_THROW(norm.weight("late", {4}, InitKind::kOnes), Error) << "the store is allocated";
}

TEST(Scope, InitializesByPath) {
  ParameterStore store;
  const Scope block = Scope(store) / "blocks" / 1;
  EXPECT_EQ(block.random("drop_path1"), stream_of("blocks.1.drop_path1"));
  EXPECT_EQ(block.random("drop_path1"), (Scope(store, "blocks.1")).random("drop_path1"));
  EXPECT_NE(block.random("drop_path1"), block.random("drop_path2"));
}

}  // namespace
}  // namespace dtn
