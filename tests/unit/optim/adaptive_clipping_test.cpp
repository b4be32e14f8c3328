#include "optim/adaptive_clipping.h"

#include "tensors.h"

namespace dtn {
namespace {

// timm's adaptive_clip_grad() in float64, with or without the heads.
test::Doubles clipped(ParameterStore& store, double factor, double scale, bool with_head) {
  const test::Doubles weights = test::doubles(store.values());
  test::Doubles g = test::doubles(store.gradients());
  for (const Parameter& p : store.parameters()) {
    if (p.name.starts_with("head") && !with_head) continue;
    const std::int64_t rows = p.shape.rank() <= 1 ? 1 : p.shape[0];
    const std::int64_t length = p.shape.numel() / rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto begin = static_cast<std::size_t>(p.offset + r * length);
      const std::size_t end = begin + static_cast<std::size_t>(length);
      double w2 = 0, g2 = 0;
      for (std::size_t i = begin; i < end; ++i) {
        w2 += weights[i] * weights[i];
        g2 += scale * g[i] * scale * g[i];
      }
      const double largest = factor * std::max(std::sqrt(w2), 1e-3), norm = std::sqrt(g2);
      if (norm < largest) continue;
      for (std::size_t i = begin; i < end; ++i) g[i] *= largest / std::max(norm, 1e-6);
    }
  }
  return g;
}

void check(bool with_head) {
  ParameterStore store;
  store.add("pos_embed", {1, 4, 6}, InitKind::kTruncatedNormal, Decay::kNo);
  store.add("patch_embed.proj.weight", {6, 3, 2, 2}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.attn.qkv.weight", {18, 6}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.attn.qkv.bias", {18}, InitKind::kZeros, Decay::kNo);
  store.add("blocks.0.norm1.weight", {6}, InitKind::kOnes, Decay::kNo);
  store.add("head.weight", {5, 6}, InitKind::kTruncatedNormal, Decay::kYes)->head = true;
  store.add("head_dist.bias", {5}, InitKind::kZeros, Decay::kNo)->head = true;
  store.allocate();
  store.initialize(1);
  std::uint32_t stream = 1;
  for (Parameter& p : store.parameters()) {
    const double size = p.name == "blocks.0.norm1.weight" ? 1e-4 : 0.01;  // this one is not clipped
    test::assign(ParameterStore::view(store.gradients(), p),
                 test::random_tensor(p.shape, stream++, size));
  }
  const test::Doubles before = test::doubles(store.gradients());
  const test::Doubles want = clipped(store, 0.02, 0.25, with_head);
  AdaptiveClipping(store, 0.02, with_head).clip(0.25);
  const test::Doubles got = test::doubles(store.gradients());
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 2 * test::unit_roundoff(DType::kFloat32) * std::abs(want[i])) << i;
  }
  for (const Parameter& p : store.parameters()) {
    const auto i = static_cast<std::size_t>(p.offset);
    const bool left_out = p.name.starts_with("head") && !with_head;
    const bool stays = left_out || p.name == "blocks.0.norm1.weight";
    EXPECT_EQ(got[i] == before[i], stays) << p.name;
  }
}

TEST(AdaptiveClipping, ClipsPerOutputUnitExceptHead) { check(false); }
TEST(AdaptiveClipping, ClipsHeadIfConfigured) { check(true); }

}  // namespace
}  // namespace dtn
