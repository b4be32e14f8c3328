#include "dtn/nn/parameters.h"

#include "kernels/optimizer/optimizer.h"
#include "tensors.h"

namespace dtn {
namespace {

void add_some(ParameterStore& store) {
  store.add("a.bias", {3}, InitKind::kZeros, Decay::kNo);
  store.add("a.weight", {3, 7}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("b.scale", {17}, InitKind::kOnes, Decay::kNo);
  const auto init = [](Tensor& value, std::uint64_t seed, const std::string& name) {
    value.zero();
    EXPECT_EQ(seed, 5u);
    EXPECT_EQ(name, "b.weight");
  };
  store.add("b.weight", {2, 16}, init, Decay::kYes);
}

TEST(ParameterStore, LaysOutDecayedParametersFirst) {
  ParameterStore store;
  add_some(store);
  store.allocate();
  store.initialize(5);
  // The offset of each parameter is a multiple of 128 elements.
  EXPECT_EQ(store.find("a.weight")->offset, 0);
  EXPECT_EQ(store.find("b.weight")->offset, 128);
  EXPECT_EQ(store.decay_end(), 256);
  EXPECT_EQ(store.find("a.bias")->offset, 256);
  EXPECT_EQ(store.find("b.scale")->offset, 384);
  EXPECT_EQ(store.flat_size(), 512);
  EXPECT_EQ(store.count(), 3 + 21 + 17 + 32);
  EXPECT_EQ(store.find("nothing"), nullptr);
  EXPECT_EQ(store.values().dtype(), DType::kFloat32);
  EXPECT_EQ(store.find("b.scale")->variable.value().raw(), store.values().data<float>() + 384);
  EXPECT_EQ(store.find("b.scale")->variable.grad().raw(), store.gradients().data<float>() + 384);
}

TEST(ParameterStore, InitializesByKindAndKeepsPaddingZero) {
  ParameterStore store;
  add_some(store);
  store.allocate(DType::kFloat64);
  store.initialize(5);
  test::Doubles flat = test::doubles(store.values());
  std::vector<bool> covered(flat.size());
  for (const Parameter& p : store.parameters()) {
    for (std::int64_t i = 0; i < p.shape.numel(); ++i) {
      covered[static_cast<std::size_t>(p.offset + i)] = true;
    }
  }
  for (std::size_t i = 0; i < flat.size(); ++i) {
    EXPECT_TRUE(covered[i] || flat[i] == 0) << i;
  }
  for (double v : test::doubles(store.find("b.scale")->variable.value())) EXPECT_EQ(v, 1);
  for (double v : test::doubles(store.find("a.weight")->variable.value())) {
    EXPECT_NE(v, 0);
    EXPECT_LT(std::abs(v), 0.12);
  }
}

TEST(ParameterStore, RejectsDuplicateNamesAndLateAdditions) {
  ParameterStore store;
  store.add("a", {3}, InitKind::kZeros, Decay::kNo);
  EXPECT_THROW(store.add("a", {4}, InitKind::kZeros, Decay::kNo), Error);
  store.allocate();
  EXPECT_THROW(store.add("b", {3}, InitKind::kZeros, Decay::kNo), Error);
}

TEST(ParameterStore, AccumulatesGradientsInFlatBuffer) {
  ParameterStore store;
  add_some(store);
  store.allocate();
  Parameter* p = store.find("a.bias");
  // A node adds into the buffer, or sends a separate tensor.
  p->variable.sink()->buffer({3}, DType::kFloat32, kCpu).data<float>()[1] += 2;
  p->variable.sink()->accumulate(Tensor::full({3}, DType::kFloat32, 1));
  test::Doubles got = test::doubles(store.gradients());
  EXPECT_EQ(got[256], 1);
  EXPECT_EQ(got[257], 3);
  store.zero_gradients();
  EXPECT_EQ(test::max_abs(test::doubles(store.gradients())), 0);
  EXPECT_EQ(test::doubles(p->variable.grad()), (test::Doubles{0, 0, 0}));
}

TEST(ParameterStore, KeepsBfloat16CopiesInSync) {
  ParameterStore store;
  add_some(store);
  store.allocate();
  store.initialize(5);
  EXPECT_FALSE(store.has_bfloat16());
  store.enable_bfloat16();
  Parameter* p = store.find("a.weight");
  auto expect_fresh = [&] {
    EXPECT_TRUE(test::same_bits(p->variable.value_as(DType::kBFloat16),
                                test::as(p->variable.value(), DType::kBFloat16)));
  };
  expect_fresh();
  test::assign(p->variable.value(), test::random_tensor({3, 7}, 1));
  store.refresh_bfloat16();
  expect_fresh();
}

// Buffers follow the parameters in the same memory, but have no gradients.
TEST(ParameterStore, StoresBuffersAfterParameters) {
  ParameterStore store;
  add_some(store);
  Buffer* mean = store.add_buffer("c.mean", {5}, InitKind::kZeros);
  Buffer* var = store.add_buffer("c.var", {2, 9}, InitKind::kOnes);
  EXPECT_THROW(store.add_buffer("c.x", {5}, InitKind::kTruncatedNormal), Error);
  EXPECT_THROW(store.add_buffer("c.var", {5}, InitKind::kZeros), Error);
  EXPECT_THROW(store.add_buffer("a.bias", {5}, InitKind::kZeros), Error);
  store.allocate();
  EXPECT_THROW(store.add_buffer("d", {5}, InitKind::kZeros), Error);
  store.initialize(5);
  EXPECT_EQ(store.flat_size(), 512);
  EXPECT_EQ(store.gradients().numel(), 512);
  EXPECT_EQ(store.values().numel(), 512 + 128 + 128);
  EXPECT_EQ(store.count(), 3 + 21 + 17 + 32);
  EXPECT_EQ(mean->value.raw(), store.values().data<float>() + 512);
  EXPECT_EQ(test::doubles(mean->value), test::Doubles(5, 0));
  EXPECT_EQ(test::doubles(var->value), test::Doubles(18, 1));
  EXPECT_EQ(test::doubles(var->next), test::Doubles(18, 1));
  EXPECT_EQ(var->next.shape(), (Shape{2, 9}));
}

TEST(ParameterStore, CommitsBuffersAfterFiniteStep) {
  ParameterStore store;
  add_some(store);
  Buffer* b = store.add_buffer("c.mean", {5}, InitKind::kZeros);
  store.allocate();
  store.initialize(5);
  auto expect = [&](double value, double next) {
    EXPECT_EQ(test::doubles(b->value), test::Doubles(5, value));
    EXPECT_EQ(test::doubles(b->next), test::Doubles(5, next));
  };
  UpdateState state;
  b->next.copy_from(Tensor::full({5}, DType::kFloat32, 3));
  expect(0, 3);
  store.commit_buffers(&state);  // a skipped step
  expect(0, 0);
  b->next.copy_from(Tensor::full({5}, DType::kFloat32, 4));
  state.finite = 1;
  store.commit_buffers(&state);
  expect(4, 4);
  b->next.copy_from(Tensor::full({5}, DType::kFloat32, 5));
  store.commit_buffers();
  expect(5, 5);
  b->value.copy_from(Tensor::full({5}, DType::kFloat32, 6));
  store.restart_buffers();
  expect(6, 6);
}

TEST(TruncatedNormal, HasExpectedMoments) {
  Tensor t = Tensor::empty({200000}, DType::kFloat64);
  fill_truncated_normal(t, 0.02, 7, "weights");
  double sum = 0, squares = 0, fourth = 0;
  for (double v : test::doubles(t)) {
    sum += v;
    squares += v * v;
    fourth += v * v * v * v;
  }
  double n = 200000, var = squares / n;
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(var), 0.02, 5 * 0.02 / std::sqrt(2 * n));
  EXPECT_NEAR(fourth / n / (var * var), 3, 5 * std::sqrt(96 / n)) << "the tails of a normal";
}

TEST(TruncatedNormal, IsTruncatedAtTwo) {
  Tensor t = Tensor::empty({10000}, DType::kFloat32);
  fill_truncated_normal(t, 1.5, 7, "wide");
  double largest = test::max_abs(test::doubles(t));
  EXPECT_LE(largest, 2);
  EXPECT_GT(largest, 1.9);
}

TEST(TruncatedNormal, DependsOnSeedAndNameOnly) {
  auto draw = [](std::uint64_t seed, const char* name, DType dtype = DType::kFloat32) {
    Tensor t = Tensor::empty({100}, dtype);
    fill_truncated_normal(t, 0.02, seed, name);
    return t;
  };
  EXPECT_TRUE(test::same_bits(draw(1, "a"), draw(1, "a")));
  EXPECT_FALSE(test::same_bits(draw(1, "a"), draw(2, "a")));
  EXPECT_FALSE(test::same_bits(draw(1, "a"), draw(1, "b")));
  EXPECT_TRUE(
      test::same_bits(test::as(draw(1, "a", DType::kFloat64), DType::kFloat32), draw(1, "a")));
}

}  // namespace
}  // namespace dtn
