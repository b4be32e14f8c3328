#include "norm_cases.h"

namespace dtn {
namespace {

// The only parameter is one weight per channel. It starts at one, or at sqrt(C) as in the code of
// the DTN paper. So both start as the same function, except for eps.
TEST(RmsNormParameters, WeightWithoutBias) {
  const std::pair<const char*, double> starts[] = {{"rms", 1.0}, {"scale", 5.0}};
  for (const auto& [type, start] : starts) {
    NormConfig config;
    config.type = type;
    auto built = test::build_norm(config, {25, 5, 1e-5}, DType::kFloat32, 0);
    ASSERT_EQ(built->store.parameters().size(), 1u) << type;
    const Parameter& weight = built->store.parameters().front();
    EXPECT_EQ(weight.name, "norm.weight");
    EXPECT_EQ(weight.decay, Decay::kNo);
    EXPECT_EQ(test::doubles(weight.variable.value()), test::Doubles(25, start)) << type;
  }
}

// Tokens of zeros and tokens shorter than eps, against the reference: no division by zero, and no
// gradient through a length that eps replaces.
TEST(ScaleNorm, TokensWithNormBelowEps) {
  NormConfig config;
  config.type = "scale";
  auto built = test::build_norm(config, {12, 3, 1e-3}, DType::kFloat64);
  Tensor x = test::random_tensor({2, 3, 12}, 1);
  for (int i = 0; i < 12; ++i) x.data<double>()[i] = 0;
  for (int i = 12; i < 24; ++i) x.data<double>()[i] *= 1e-5;
  test::Doubles results[2][2];
  for (bool reference : {false, true}) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    Variable input(x, true);
    Variable y = reference ? built->norm->reference(ctx, input, {1, 3})
                           : built->norm->forward(ctx, input, {1, 3});
    tape.backward(y, test::random_tensor(y.shape(), 2));
    results[reference][0] = test::doubles(y.value());
    results[reference][1] = test::doubles(input.grad());
  }
  for (int i : {0, 1}) {
    EXPECT_GT(test::max_abs(results[1][i]), 0);
    EXPECT_LE(test::max_abs_difference(results[0][i], results[1][i]),
              1e-13 * test::max_abs(results[1][i]));
  }
  test::Doubles dy = test::doubles(test::random_tensor({2, 3, 12}, 2));
  Tensor weight = built->store.find("norm.weight")->variable.value();
  for (std::size_t i = 0; i < 24; ++i) {
    const double straight = dy[i] * test::element(weight, static_cast<std::int64_t>(i % 12)) / 1e-3;
    EXPECT_NEAR(results[0][1][i], straight, 1e-12 * std::abs(straight)) << i;
  }
}

}  // namespace
}  // namespace dtn
