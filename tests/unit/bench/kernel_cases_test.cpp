// The kernel cases of a training step: the kernels, their bytes and their multiply-adds.
#include "apps/bench/kernel_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

// A model with drop path; the class token joins before the last of three blocks.
ExperimentConfig small(const std::string& norm) {
  const std::vector<std::string> overrides = {"model.norm=" + norm};
  return parse_experiment(
      "model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4,"
      " mlp_ratio: 2, num_classes: 10, class_token_at: 2, drop_path: 0.1}\n"
      "schedule: {steps: 1}\n"
      "train: {batch_size: 16, micro_batch: 8}\n",
      "test", overrides, standard_registries().schemas());
}

struct Cost {
  double bytes, multiply_adds;
};

// Runs the named kernel once and returns its cost.
Cost cost_of(const ExperimentConfig& config, const std::string& name) {
  RandomValues values;
  for (const KernelCase& k : kernel_cases(config, kCpu)) {
    if (k.name != name) continue;
    KernelTensors tensors(kCpu, values);
    const KernelCall call = k.prepare(tensors);
    call.run();
    return {tensors.bytes(), call.multiply_adds};
  }
  throw Error("no kernel " + name);
}

std::set<std::string> names_of(const ExperimentConfig& config, Device device) {
  std::set<std::string> names;
  for (const KernelCase& k : kernel_cases(config, device)) {
    EXPECT_TRUE(names.insert(k.name).second) << k.name << " twice";
  }
  return names;
}

TEST(KernelCases, CoverKernelsOfModel) {
  const auto has = [](const std::set<std::string>& names, const std::string& name) {
    return names.contains(name);
  };
  for (const Device device : {kCpu, kCuda}) {
    const std::set<std::string> dtn = names_of(small("dtn"), device);
    for (const char* layer : {"qkv", "proj", "fc1", "fc2"}) {
      for (const char* pass : {"_fwd", "_dx", "_dw"}) {
        EXPECT_TRUE(has(dtn, std::string(layer) + pass)) << layer << pass;
      }
    }
    EXPECT_TRUE(has(dtn, "dtn_fwd") && has(dtn, "layer_norm_fwd") && has(dtn, "adamw"));
    EXPECT_TRUE(has(dtn, "query_attention_bwd"));
    EXPECT_FALSE(has(dtn, "ema"));
    const std::set<std::string> ln = names_of(small("ln"), device);
    EXPECT_TRUE(has(ln, "layer_norm_bwd"));
    EXPECT_FALSE(has(ln, "dtn_bwd"));
    // On CUDA the norm also adds the residual, so no separate drop path kernel runs.
    EXPECT_EQ(has(ln, "drop_path_bwd"), device == kCpu);
    EXPECT_EQ(has(dtn, "drop_path_bwd"), device == kCpu);
  }
  ExperimentConfig other = small("dtn");
  other.model.pool = Pooling::kMean;
  other.train.ema = 0.9;
  other.optim.name = "sgd";
  const std::set<std::string> names = names_of(other, kCpu);
  EXPECT_TRUE(has(names, "ema") && has(names, "sgd"));
  EXPECT_FALSE(has(names, "adamw") || has(names, "query_attention_fwd"));
  other.optim.name = "lion";
  EXPECT_TRUE(names_of(other, kCuda).contains("lion"));
  other.optim.name = "lamb";
  EXPECT_TRUE(names_of(other, kCuda).contains("lamb"));
  other.model.family = "pvt";
  EXPECT_THROW(kernel_cases(other, kCpu), ConfigError);
}

TEST(KernelCases, CountBytesAndMultiplyAdds) {
  ExperimentConfig config = small("dtn");
  constexpr double kTokens = 8 * 16, kC = 24, kHidden = 48;
  // The kernel reads dy and x, and reads and writes the gradient of the weight.
  const Cost dw = cost_of(config, "fc1_dw");
  EXPECT_EQ(dw.bytes, 4 * (kTokens * kHidden + kTokens * kC + 2 * kHidden * kC));
  EXPECT_EQ(dw.multiply_adds, kTokens * kC * kHidden);
  // In bfloat16 the activations need half the bytes; the gradient does not.
  config.train.precision = Precision::kBFloat16;
  EXPECT_EQ(cost_of(config, "fc1_dw").bytes,
            2 * (kTokens * kHidden + kTokens * kC) + 4 * 2 * kHidden * kC);
  // The kernel reads q, k and v. It writes the output, and a sum of exponentials per head.
  const Cost attention = cost_of(config, "attention_fwd");
  EXPECT_EQ(attention.bytes, 2 * kTokens * (3 * kC + kC) + 4 * kTokens * 4);
  EXPECT_EQ(attention.multiply_adds, 2 * kTokens * 16 * kC);
  // Without drop path the product adds the residual, and the norm adds nothing.
  config.model.drop_path = 0;
  EXPECT_EQ(cost_of(config, "proj_fwd").bytes, 2 * (3 * kTokens * kC + kC * kC) + 4 * kC);
  constexpr double kRows = 8 * 17;
  EXPECT_EQ(cost_of(config, "layer_norm_fwd").bytes, 2 * 2 * kRows * kC + 4 * (2 * kC + 2 * kRows));
}

TEST(KernelCases, RunWithEveryOptimizer) {
  ExperimentConfig config = small("ln");
  const double adamw = cost_of(config, "adamw").bytes;
  config.optim.name = "lamb";
  const double chunks = std::ceil(adamw / 28 / 8192);
  EXPECT_EQ(cost_of(config, "lamb").bytes, adamw + 8 * (3 * chunks + 2)) << "and a table";
  config.optim.name = "lion";
  EXPECT_EQ(cost_of(config, "lion").bytes, adamw * 20 / 28);
}

TEST(KernelCases, RunWithEveryDtnKind) {
  for (const char* position : {"relative", "uniform", "free"}) {
    for (const char* variant : {"paper", "official"}) {
      const ExperimentConfig config =
          small(cat("{type: dtn, position: ", position, ", variant: ", variant, "}"));
      SCOPED_TRACE(cat(position, ", ", variant));
      const double tokens = 8 * 16 * 24;
      EXPECT_GT(cost_of(config, "dtn_fwd").bytes, 2 * 4 * tokens);
      EXPECT_GT(cost_of(config, "dtn_bwd").bytes, 4 * 4 * tokens);
    }
  }
}

TEST(RandomValues, FillTensorsOfAnySizeWithinRange) {
  RandomValues values;
  Tensor large = Tensor::zeros({3, 1 << 20}, DType::kFloat32);
  values.fill(large, 0.5, 1);
  const auto [low, high] =
      std::minmax_element(large.values<float>().begin(), large.values<float>().end());
  EXPECT_GE(*low, 0.5f);
  EXPECT_LE(*high, 1.0f);
  EXPECT_GT(*high - *low, 0.49f);
  Tensor again = Tensor::zeros({1 << 20}, DType::kFloat32);
  values.fill(again, 0.5, 1);
  EXPECT_NE(again.data<float>()[0], large.data<float>()[0]) << "each begins elsewhere";
  Tensor labels = Tensor::full({1000}, DType::kInt64, -1);
  values.fill(labels, 0, 10);
  const std::set<std::int64_t> seen(labels.values<std::int64_t>().begin(),
                                    labels.values<std::int64_t>().end());
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 9);
}

}  // namespace
}  // namespace dtn
