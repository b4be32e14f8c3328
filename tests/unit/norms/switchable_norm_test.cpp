#include "norm_cases.h"

namespace dtn {
namespace {

using test::BuiltNorm;
using test::Doubles;

const NormShape kShape{10, 5, 1e-4};
constexpr std::int64_t kBatch = 3;
const TokenGrid kGrid{2, 3};

NormConfig sn(double momentum = 0.1) {
  NormConfig config;
  config.type = "sn";
  config.options = {{"momentum", momentum}};
  return config;
}

Tensor input(std::uint32_t stream = 1, double mean = 0) {
  return test::random_tensor({kBatch, kGrid.tokens(), kShape.channels}, stream, 1.5, mean);
}

Doubles output(BuiltNorm& built, const Tensor& x, bool training, bool recompute = false) {
  Context ctx;
  ctx.mode.training = training;
  ctx.mode.recompute = recompute;
  return test::doubles(built.norm->forward(ctx, Variable(x), kGrid).value());
}

Doubles next_of(const BuiltNorm& built, const std::string& name) {
  for (const Buffer& b : built.store.buffers()) {
    if (b.name == name) return test::doubles(b.next);
  }
  throw Error(cat("no buffer ", name));
}

TEST(SwitchableNorm, HasReleasedParameters) {
  auto built = test::build_norm(sn(), kShape, DType::kFloat64, 0);
  const std::pair<std::string, Shape> want[] = {{"norm.weight", {10}},
                                                {"norm.bias", {10}},
                                                {"norm.mean_weight", {3}},
                                                {"norm.var_weight", {3}}};
  ASSERT_EQ(built->store.parameters().size(), std::size(want));
  for (const auto& [name, shape] : want) {
    const Parameter* p = built->store.find(name);
    ASSERT_NE(p, nullptr) << name;
    EXPECT_EQ(p->shape, shape) << name;
    EXPECT_EQ(p->decay, Decay::kNo) << name;
    for (double v : test::doubles(p->variable.value())) EXPECT_EQ(v, name != "norm.bias") << name;
  }
  EXPECT_EQ(next_of(*built, "norm.running_mean"), Doubles(10));
  EXPECT_EQ(next_of(*built, "norm.running_var"), Doubles(10));
}

// With all weight on one kind of statistics, the result is that normalizer.
TEST(SwitchableNorm, SingleStatisticsKindIsThatNormalizer) {
  const Doubles x = test::doubles(input());
  const auto C = static_cast<std::size_t>(kShape.channels);
  const auto T = static_cast<std::size_t>(kGrid.tokens());
  for (int kind = 0; kind < 3; ++kind) {
    auto built = test::build_norm(sn(), kShape, DType::kFloat64);
    for (const char* name : {"norm.mean_weight", "norm.var_weight"}) {
      Tensor logits = built->store.find(name)->variable.value();
      for (int k = 0; k < 3; ++k) logits.data<double>()[k] = k == kind ? 1000 : -1000;
    }
    const Doubles weight = test::doubles(built->store.find("norm.weight")->variable.value());
    const Doubles bias = test::doubles(built->store.find("norm.bias")->variable.value());
    Doubles want(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto shares = [&](std::size_t j) {  // true if j shares the statistics of i
        const bool image = i / C / T == j / C / T, token = i / C == j / C, channel = i % C == j % C;
        return kind == 0 ? image && channel : kind == 1 ? token : channel;
      };
      double count = 0, mean = 0, var = 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        if (shares(j)) mean += x[j], ++count;
      }
      mean /= count;
      for (std::size_t j = 0; j < x.size(); ++j) {
        if (shares(j)) var += (x[j] - mean) * (x[j] - mean) / count;
      }
      want[i] = weight[i % C] * (x[i] - mean) / std::sqrt(var + kShape.eps) + bias[i % C];
    }
    EXPECT_LE(test::max_abs_difference(output(*built, input(), true), want), 1e-13) << kind;
  }
}

TEST(SwitchableNorm, TokenStatisticsAreLayerNorm) {
  NormConfig ln;
  ln.type = "ln";
  for (bool training : {false, true}) {
    auto layer = test::build_norm(ln, kShape, DType::kFloat64);
    auto built = test::build_norm(sn(), kShape, DType::kFloat64);  // same weight and bias
    for (const char* name : {"norm.mean_weight", "norm.var_weight"}) {
      test::assign(built->store.find(name)->variable.value(),
                   test::from_doubles({-1000, 1000, -1000}, {3}, DType::kFloat64));
    }
    EXPECT_LE(test::max_abs_difference(output(*built, input(), training),
                                       output(*layer, input(), training)),
              1e-13);
  }
}

// Every training pass of a step updates `next`; evaluation reads the settled values.
TEST(SwitchableNorm, UpdatesRunningStatistics) {
  constexpr double kMomentum = 0.25;
  auto built = test::build_norm(sn(kMomentum), kShape, DType::kFloat64);
  const Doubles before = output(*built, input(), false);
  Doubles mean = next_of(*built, "norm.running_mean"), var = next_of(*built, "norm.running_var");
  for (std::uint32_t stream : {1u, 2u}) {
    output(*built, input(stream, 3), true);
    output(*built, input(stream, 3), true, true);  // recomputation of a checkpoint
    const Doubles x = test::doubles(input(stream, 3));
    const std::size_t C = mean.size(), rows = x.size() / C;
    for (std::size_t c = 0; c < C; ++c) {
      double batch_mean = 0, batch_var = 0;
      for (std::size_t r = 0; r < rows; ++r) batch_mean += x[r * C + c] / rows;
      for (std::size_t r = 0; r < rows; ++r) {
        batch_var += std::pow(x[r * C + c] - batch_mean, 2) / rows;
      }
      mean[c] += kMomentum * (batch_mean - mean[c]);
      var[c] += kMomentum * (batch_var - var[c]);
    }
    EXPECT_LE(test::max_abs_difference(next_of(*built, "norm.running_mean"), mean), 1e-14);
    EXPECT_LE(test::max_abs_difference(next_of(*built, "norm.running_var"), var), 1e-14);
    EXPECT_EQ(output(*built, input(), false), before) << "the step is not over yet";
  }
  built->store.commit_buffers();
  EXPECT_GT(test::max_abs_difference(output(*built, input(), false), before), 0.1);
}

// Evaluation gives the same bits for images in a batch and for single images.
TEST(SwitchableNorm, EvaluatesEachImageIndependently) {
  auto built = test::build_norm(sn(), kShape, DType::kFloat64);
  const Doubles together = output(*built, input(), false);
  Doubles alone;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    const Doubles y = output(*built, input().slice(b, b + 1), false);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  EXPECT_EQ(alone, together);
}

TEST(SwitchableNorm, RejectsOtherShapes) {
  auto built = test::build_norm(sn(), kShape, DType::kFloat64);
  Context ctx;
  for (const Shape& shape : {Shape{2, 6, 11}, Shape{12, 10}}) {
    EXPECT_THROW(built->norm->forward(ctx, Variable(Tensor::zeros(shape, DType::kFloat64)), kGrid),
                 Error);
  }
}

}  // namespace
}  // namespace dtn
