// Compares every normalizer with gains and shifts of samples, alone and after a gated residual sum,
// with its references in float64.
#include "dtn/ops/modulation.h"
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::Input;
using test::Op;

struct Setting {
  std::int64_t batch;
  TokenGrid grid;
  std::int64_t channels, heads;
};
const Setting kSettings[] = {
    {2, {14, 14}, 48, 4}, {1, {1, 197}, 24, 3}, {3, {1, 31}, 12, 4}, {1, {4, 6}, 36, 6}};

// The inputs are x, branch, gate and modulation. `gated` adds the branch.
Op pass_of(Normalizer& norm, const TokenGrid& grid, bool gated) {
  return [&norm, grid, gated](Context& ctx, const std::vector<Variable>& v) {
    Variable sum;
    return gated ? norm.forward_gated_modulated(ctx, v[0], v[2], v[1], v[3], grid, sum)
                 : norm.forward_modulated(ctx, v[0], v[1], grid);
  };
}

Op reference_of(Normalizer& norm, const TokenGrid& grid, bool gated) {
  namespace r = ops::reference;
  return [&norm, grid, gated](Context& ctx, const std::vector<Variable>& v) {
    const Variable x = gated ? r::gated_add(ctx, v[0], v[2], v[1]) : v[0];
    return r::modulate_samples(ctx, norm.reference(ctx, x, grid), v[gated ? 3 : 1]);
  };
}

void compare(const NormConfig& config, const Setting& s, bool affine, bool gated) {
  const NormShape shape{s.channels, s.heads, 1e-5, s.grid, affine};
  const Shape tokens{s.batch, s.grid.tokens(), s.channels};
  std::vector<Input> inputs = {Input::activation(tokens, 1, 2, 0.5),
                               Input::weight({s.batch, 2 * s.channels}, 4)};
  if (gated) {
    inputs = {inputs[0], Input::activation(tokens, 2), Input::weight({s.batch, s.channels}, 3),
              inputs[1]};
  }
  Context training;
  training.mode.training = true;
  const auto run = [&](DType dtype, bool reference) {
    auto built = test::build_norm(config, shape, accumulator_of(dtype));
    const Op op = reference ? reference_of(*built->norm, s.grid, gated)
                            : pass_of(*built->norm, s.grid, gated);
    return test::run_op(op, inputs, dtype, training);
  };
  const auto want = run(DType::kFloat64, true);
  const std::string what = cat(config.type, affine ? "" : " without affine",
                               gated ? ", gated, T " : ", T ", s.grid.tokens());
  test::expect_close(run(DType::kFloat64, false), want, 1e-11, what + ", float64");
  const std::int64_t terms = s.batch * s.grid.tokens() + s.channels;
  test::expect_close(run(DType::kFloat32, false), want, test::float32_tolerance(4 * terms),
                     what + ", float32");
  // The sum, the norm and y are rounded; in the backward pass dy of the norm, dx and dbranch.
  test::expect_close(run(DType::kBFloat16, false), want, test::bfloat16_tolerance(gated ? 5 : 3),
                     what + ", bfloat16");
}

TEST(ModulatedNorms, MatchReferences) {
  for (const NormSchema& schema : norm_registry().schemas()) {
    if (!schema.stands_alone()) continue;
    NormConfig config;
    config.type = schema.type;
    for (const Setting& s : kSettings) {
      for (bool affine : {true, false}) {
        for (bool gated : {false, true}) compare(config, s, affine, gated);
      }
    }
  }
}

// Kernels with a full mixing matrix, or with statistics of cells, apply the modulation too.
TEST(ModulatedNorms, DtnVariantsMatchReferences) {
  using S = std::string;
  const std::vector<std::vector<NormOption>> variants = {
      {{"variant", S("official")}},
      {{"pool", std::int64_t{2}}},
      {{"pool", std::int64_t{2}}, {"variant", S("official")}},
      {{"position", S("free")}},
      {{"position", S("banded:3")}},
      {{"lambda", 0.25}},
  };
  for (const auto& options : variants) {
    NormConfig config;
    config.type = "dtn";
    config.options = options;
    for (const Setting& s : {kSettings[0], kSettings[3]}) compare(config, s, false, true);
  }
}

// LayerNorm without affine is one node of the tape, and a gated sum is another.
TEST(ModulatedNorms, LayerNormWithoutAffineIsOnePass) {
  for (bool affine : {true, false}) {
    NormConfig config;
    config.type = "ln";
    const TokenGrid grid{2, 3};
    auto built = test::build_norm(config, {8, 2, 1e-5, grid, affine}, DType::kFloat32);
    const Variable x(test::as(test::random_tensor({2, 6, 8}, 1), DType::kFloat32), true);
    const Variable gate(test::as(test::random_tensor({2, 8}, 2), DType::kFloat32));
    const Variable modulation(test::as(test::random_tensor({2, 16}, 3), DType::kFloat32));
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    built->norm->forward_modulated(ctx, x, modulation, grid);
    EXPECT_EQ(tape.size(), affine ? 2u : 1u);
    Variable sum;
    const Variable y = built->norm->forward_gated_modulated(ctx, x, gate, x, modulation, grid, sum);
    EXPECT_EQ(tape.size(), affine ? 5u : 3u);
    EXPECT_EQ(sum.shape(), y.shape());
  }
}

}  // namespace
}  // namespace dtn
