#include "optim/parameter_clipping.h"

#include "tensors.h"

namespace dtn {
namespace {

// DINO's clip_gradients() in float64: norms of the mean gradient, which is `scale` times the stored
// one.
test::Doubles clipped(ParameterStore& store, double clip, double scale) {
  test::Doubles g = test::doubles(store.gradients());
  for (const Parameter& p : store.parameters()) {
    const auto begin = static_cast<std::size_t>(p.offset);
    const std::size_t end = begin + static_cast<std::size_t>(p.shape.numel());
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += scale * g[i] * scale * g[i];
    const double factor = clip / (std::sqrt(sum) + 1e-6);
    if (p.frozen || factor >= 1) continue;
    for (std::size_t i = begin; i < end; ++i) g[i] *= factor;
  }
  return g;
}

TEST(ParameterClipping, ClipsEachTrainedParameterByItself) {
  for (double scale : {1.0, 0.5}) {
    ParameterStore store;
    store.add("large", {150, 101}, InitKind::kZeros, Decay::kYes);
    store.add("small", {3}, InitKind::kZeros, Decay::kYes);
    store.add("frozen", {7}, InitKind::kZeros, Decay::kNo);
    store.add("bias", {5}, InitKind::kZeros, Decay::kNo);
    store.allocate();
    store.freeze([](const Parameter& p) { return p.name == "frozen"; }, false);
    std::uint32_t stream = 1;
    for (Parameter& p : store.parameters()) {
      const double size = p.name == "small" ? 0.01 : 10;
      test::assign(ParameterStore::view(store.gradients(), p),
                   test::random_tensor(p.shape, stream++, size));
    }
    const test::Doubles before = test::doubles(store.gradients());
    const test::Doubles want = clipped(store, 2, scale);
    ParameterClipping(store, 2).clip(scale);
    const test::Doubles got = test::doubles(store.gradients());
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 2 * test::unit_roundoff(DType::kFloat32) * std::abs(want[i]));
    }
    for (const Parameter& p : store.parameters()) {
      const auto i = static_cast<std::size_t>(p.offset);
      EXPECT_EQ(got[i] == before[i], p.name == "small" || p.name == "frozen") << p.name;
    }
  }
}

}  // namespace
}  // namespace dtn
