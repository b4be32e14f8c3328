#include "apps/bench/benchmark.h"
#include "norm_cases.h"

namespace dtn {
namespace {

NormProbe layer_norm() {
  NormProbe probe;
  probe.heads = 2;
  return probe;
}

NamedTensors inputs() {
  return {{"x", test::as(test::random_tensor({2, 6, 8}, 1), DType::kFloat32)},
          {"dy", test::as(test::random_tensor({2, 6, 8}, 2), DType::kFloat32)},
          {"weight", test::as(test::random_tensor({8}, 3), DType::kFloat64)}};
}

const Tensor& named(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [n, t] : tensors) {
    if (n == name) return t;
  }
  throw Error("no tensor " + name);
}

TEST(NormProbe, RunsNormalizerOnGivenTensors) {
  NamedTensors results = probe_norm(layer_norm(), inputs());
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(named(results, "dweight").shape(), (Shape{8}));
  // dbias is the sum of dy over the tokens.
  test::Doubles dy = test::doubles(named(inputs(), "dy"));
  test::Doubles dbias = test::doubles(named(results, "dbias"));
  for (std::size_t c = 0; c < 8; ++c) {
    double sum = 0;
    for (std::size_t r = 0; r < 12; ++r) sum += dy[r * 8 + c];
    EXPECT_NEAR(dbias[c], sum, 1e-6);
  }
  NamedTensors changed = inputs();
  changed[2].second.zero();
  EXPECT_EQ(test::max_abs(test::doubles(named(probe_norm(layer_norm(), changed), "y"))), 0);
  EXPECT_GT(test::max_abs(test::doubles(named(results, "y"))), 0);
  EXPECT_GT(test::max_abs(test::doubles(named(results, "dx"))), 0);
}

TEST(NormProbe, ErrorsNameInvalidInput) {
  auto message = [](const NamedTensors& tensors) {
    try {
      probe_norm(layer_norm(), tensors);
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  NamedTensors tensors = inputs();
  tensors[0].second = Tensor::zeros({2, 8}, DType::kFloat32);
  EXPECT_NE(message(tensors).find("x [B, T, C]"), std::string::npos);
  tensors = inputs();
  tensors.erase(tensors.begin() + 1);
  EXPECT_NE(message(tensors).find("dy"), std::string::npos);
  tensors = inputs();
  tensors[2].second = Tensor::zeros({9}, DType::kFloat32);
  EXPECT_NE(message(tensors).find("weight"), std::string::npos);
  tensors = inputs();
  tensors[2].second = Tensor::zeros({8}, DType::kInt64);
  EXPECT_NE(message(tensors).find("int64"), std::string::npos);
  tensors = inputs();
  tensors[2].first = "wait";
  EXPECT_NE(message(tensors).find("wait"), std::string::npos);
}

}  // namespace
}  // namespace dtn
