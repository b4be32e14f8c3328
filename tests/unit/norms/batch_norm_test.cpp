// BatchNorm refuses to train on a single value per channel.
#include "conditional_cases.h"
#include "norm_cases.h"

namespace dtn {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

void expect_refused(const std::function<void()>& f) {
  const std::string error = error_of(f);
  EXPECT_NE(error.find("BatchNorm needs more than one value per channel in training"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("train.batch_size or train.micro_batch"), std::string::npos) << error;
}

Context in_mode(bool training) {
  Context ctx;
  ctx.mode.training = training;
  return ctx;
}

TEST(BatchNorm, RejectsTrainingOnSingleValue) {
  NormConfig config;
  config.type = "bn";
  auto built = test::build_norm(config, {6, 2, 1e-5}, DType::kFloat64);
  const auto run = [&](const Shape& shape, const TokenGrid& grid, bool training) {
    Context ctx = in_mode(training);
    return built->norm->forward(ctx, Variable(test::random_tensor(shape, 1)), grid);
  };
  expect_refused([&] { run({1, 1, 6}, {1, 1}, true); });
  EXPECT_NO_THROW(run({1, 1, 6}, {1, 1}, false));
  EXPECT_NO_THROW(run({1, 2, 6}, {1, 2}, true));
  EXPECT_NO_THROW(run({2, 1, 6}, {1, 1}, true));
  // A refused batch does not change the running statistics.
  for (const Buffer& b : built->store.buffers()) {
    for (const double value : test::doubles(b.value)) EXPECT_TRUE(std::isfinite(value)) << b.name;
  }
}

// The valid tokens of a padded batch are its rows.
TEST(BatchNorm, DoesNotCountPadding) {
  NormConfig config;
  config.type = "bn";
  auto built = test::build_norm(config, {6, 2, 1e-5}, DType::kFloat64);
  TokenGrid grid{1, 4};
  const auto run = [&](std::int64_t length) {
    grid.lengths = Tensor::from(std::vector<std::int64_t>{length}, {1});
    Context ctx = in_mode(true);
    return built->norm->forward(ctx, Variable(test::random_tensor({1, 4, 6}, 1)), grid);
  };
  expect_refused([&] { run(1); });
  EXPECT_NO_THROW(run(2));
}

TEST(BatchNorm, ConditionalRejectsTrainingOnSingleValue) {
  ParameterStore store;
  ConditionalBatchNorm norm({store, "norm"}, {.channels = 6, .condition = 4});
  store.allocate();
  store.initialize(1);
  const Condition c =
      Condition::of_vector(Variable(test::as(test::random_tensor({1, 4}, 2), DType::kFloat32)));
  const Variable x(test::as(test::random_tensor({1, 1, 6}, 1), DType::kFloat32));
  Context training = in_mode(true), evaluation = in_mode(false);
  expect_refused([&] { norm.forward(training, x, {1, 1}, c); });
  EXPECT_NO_THROW(norm.forward(evaluation, x, {1, 1}, c));
}

}  // namespace
}  // namespace dtn
