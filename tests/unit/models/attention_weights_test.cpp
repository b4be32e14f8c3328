// Observed attention weights: the weights by which a block mixes its values.
#include "dtn/nn/attention.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using namespace dtn::test;

struct AttentionWeights : Observer {
  std::vector<Tensor> all;  // one per block
  void attention(const AttentionView& view) override { all.push_back(view.weights()); }
};

Doubles logits_of(Classifier& model, const Tensor& images, Observer* observer) {
  Context ctx = computing_in(DType::kFloat64);
  ctx.mode.skip_unread = false;
  ctx.observer = observer;
  return doubles(model.forward(ctx, images).value());
}

TEST(AttentionWeights, SumToOneAndDoNotChangeOutput) {
  std::vector<ModelConfig> configs = checkpoint_vits();
  configs.push_back(biased_vit());
  for (const ModelConfig& config : configs) {
    Classifier model(config, 1, DType::kFloat64);
    perturb(model.parameters());
    const Tensor images = some_images(config, 2, DType::kFloat64);
    AttentionWeights seen;
    EXPECT_EQ(logits_of(model, images, &seen), logits_of(model, images, nullptr)) << config.preset;
    ASSERT_EQ(seen.all.size(), static_cast<std::size_t>(config.depth)) << config.preset;
    for (int i = 0; i < config.depth; ++i) {
      const bool joined = i >= config.grid_blocks();
      const std::int64_t tokens = config.num_patches() + (joined ? config.prefix_tokens() : 0);
      const Tensor& weights = seen.all[static_cast<std::size_t>(i)];
      ASSERT_EQ(weights.shape(), Shape({2, config.num_heads, tokens, tokens})) << config.preset;
      const Doubles values = doubles(weights);
      const auto width = static_cast<std::size_t>(tokens);
      for (std::size_t row = 0; row < values.size(); row += width) {
        double sum = 0;
        for (std::size_t k = 0; k < width; ++k) sum += values[row + k];
        ASSERT_NEAR(sum, 1, 1e-12);
      }
    }
  }
}

// Against the fused attention: the weights times the values give its output.
TEST(AttentionWeights, MatchFusedAttention) {
  for (const ModelConfig& config : {deit_vit(), biased_vit(), checkpoint_vits()[5]}) {
    ParameterStore store;
    const std::int64_t c = config.embed_dim, h = config.num_heads;
    Attention attention({store, "attn"},
                        {.channels = c,
                         .heads = h,
                         .qkv_bias = true,
                         .position = config.mhsa_position,
                         .qk_norm = config.qk_norm ? std::optional(1e-6) : std::nullopt});
    store.allocate(DType::kFloat64);
    store.initialize(1);
    perturb(store);
    const TokenGrid grid{3, 3};
    const Variable x(as(representable(random_tensor({2, 9, c}, 77)), DType::kFloat64));
    Context ctx = computing_in(DType::kFloat64);
    AttentionWeights seen;
    ctx.observer = &seen;
    const Doubles mixed = doubles(attention.mix(ctx, x, grid).value());
    const Doubles weights = doubles(seen.all.at(0));
    // v = the last third of x W^T + b
    const Doubles w = doubles(store.find("attn.qkv.weight")->variable.value());
    const Doubles b = doubles(store.find("attn.qkv.bias")->variable.value());
    const Doubles in = doubles(x.value());
    const auto value = [&](std::int64_t row, std::int64_t channel) {
      double v = b[std::size_t(2 * c + channel)];
      for (std::int64_t k = 0; k < c; ++k) {
        v += in[std::size_t(row * c + k)] * w[std::size_t((2 * c + channel) * c + k)];
      }
      return v;
    };
    for (std::int64_t image = 0; image < 2; ++image) {
      for (std::int64_t t = 0; t < 9; ++t) {
        for (std::int64_t channel = 0; channel < c; ++channel) {
          const std::int64_t head = channel / (c / h);
          double want = 0;
          for (std::int64_t k = 0; k < 9; ++k) {
            want += weights[std::size_t(((image * h + head) * 9 + t) * 9 + k)] *
                    value(image * 9 + k, channel);
          }
          ASSERT_NEAR(mixed[std::size_t((image * 9 + t) * c + channel)], want, 1e-10)
              << config.preset;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn
