// Checks normalizers with gains and shifts of samples against central differences in float64, with
// respect to the input, the modulation, the gate, the branch and every parameter.
#include "dtn/autograd/gradcheck.h"
#include "norm_cases.h"

namespace dtn {
namespace {

using test::random_tensor;

constexpr std::int64_t kBatch = 2, kChannels = 10, kHeads = 5;

NormConfig config_of(const std::string& type, std::vector<NormOption> options = {}) {
  NormConfig config;
  config.type = type;
  config.options = std::move(options);
  return config;
}

// `gated`: after a gated residual sum, which also goes on. `fused`: the norm is one node of the
// tape.
void check(const NormConfig& config, const TokenGrid& grid, bool affine, bool gated, bool fused) {
  test::Threads one(1);  // thousands of tiny passes
  auto built = test::build_norm(config, {kChannels, kHeads, 1e-3, grid, affine}, DType::kFloat64);
  const Shape tokens{kBatch, grid.tokens(), kChannels};
  std::vector<Tensor> inputs = {random_tensor(tokens, 1, 1.5),
                                random_tensor({kBatch, 2 * kChannels}, 2)};
  if (gated) {
    inputs.push_back(random_tensor(tokens, 3));
    inputs.push_back(random_tensor({kBatch, kChannels}, 4));
  }
  const std::size_t own = inputs.size();
  std::vector<Parameter*> parameters;
  for (Parameter& p : built->store.parameters()) {
    if (test::is_inert(p)) continue;
    parameters.push_back(&p);
    inputs.push_back(p.variable.value());
  }
  const auto f = [&](Context& ctx, const std::vector<Variable>& v) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->variable = v[own + i];
    Variable sum;
    const Variable y =
        gated ? built->norm->forward_gated_modulated(ctx, v[0], v[3], v[2], v[1], grid, sum)
              : built->norm->forward_modulated(ctx, v[0], v[1], grid);
    EXPECT_EQ(!ctx.tape || ctx.tape->size() == (gated ? 2u : 1u), !ctx.tape || fused)
        << config.type;
    return y;
  };
  const GradcheckResult r = gradcheck(f, inputs, {});
  EXPECT_LE(r.max_relative_error, 1e-6) << config.type << ": " << r.worst;
  EXPECT_GT(r.smallest_gradient, 0) << config.type;
}

TEST(ModulatedNormGradients, LayerNorm) {
  for (bool gated : {false, true}) {
    check(config_of("ln"), {3, 4}, false, gated, true);
    check(config_of("ln"), {1, 1}, false, gated, true);
    check(config_of("ln"), {3, 4}, true, gated, false);
  }
}

TEST(ModulatedNormGradients, DynamicTokenNorm) {
  using S = std::string;
  const std::vector<std::vector<NormOption>> variants = {
      {},
      {{"variant", S("official")}},
      {{"pool", std::int64_t{2}}},
      {{"pool", std::int64_t{2}}, {"variant", S("official")}},
      {{"position", S("free")}},
      {{"position", S("banded:3")}, {"variant", S("official")}},
      {{"only_var", true}},
  };
  for (const auto& options : variants) {
    for (bool gated : {false, true}) check(config_of("dtn", options), {4, 6}, false, gated, true);
  }
  check(config_of("dtn"), {4, 6}, true, false, false);
  check(config_of("dtn"), {1, 7}, false, false, false);  // windows along a line
}

}  // namespace
}  // namespace dtn
