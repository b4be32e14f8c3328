// In training, PowerNorm's backward pass is an approximation by design. It is exact where it
// approximates nothing: after the warm-up and before any running mean is gathered.
#include "dtn/autograd/gradcheck.h"
#include "norm_cases.h"

namespace dtn {
namespace {

GradcheckResult check_training(double warmup, double ema_gz) {
  const NormShape shape{12, 4, 1e-3};
  NormConfig config;
  config.type = "power";
  config.options = {{"warmup", static_cast<std::int64_t>(warmup)}};
  auto built = test::build_norm(config, shape, DType::kFloat64);
  for (const Buffer& b : built->store.buffers()) {
    Tensor value = b.value;
    if (b.name == "norm.iters") value.copy_from(Tensor::full({1}, DType::kFloat64, 5));
    if (b.name == "norm.ema_gz") value.copy_from(Tensor::full(b.shape, DType::kFloat64, ema_gz));
  }
  std::vector<Tensor> inputs = {test::random_tensor({2, 7, 12}, 1, 1.5)};
  std::vector<Parameter*> parameters;
  for (Parameter& p : built->store.parameters()) {
    parameters.push_back(&p);
    inputs.push_back(p.variable.value());
  }
  Context base;
  base.mode.training = true;
  return gradcheck(
      [&](Context& ctx, const std::vector<Variable>& v) {
        for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->variable = v[i + 1];
        return built->norm->forward(ctx, v[0], {1, 7});
      },
      inputs, base);
}

TEST(PowerNormGradients, ExactWithoutRunningMeans) {
  const GradcheckResult exact = check_training(5, 0);
  EXPECT_LE(exact.max_relative_error, 1e-6) << exact.worst;
  EXPECT_GT(exact.smallest_gradient, 0);
  // During the warm-up psi changes with x, and a running mean changes dx.
  EXPECT_GT(check_training(6, 0).max_relative_error, 1e-3);
  EXPECT_GT(check_training(5, 0.1).max_relative_error, 1e-3);
}

}  // namespace
}  // namespace dtn
