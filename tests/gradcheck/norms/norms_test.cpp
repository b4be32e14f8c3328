// Checks every normalizer of the registry, with the values of its options, against central
// differences in float64. Covers the fused forward pass and the reference, with respect to the
// input and every parameter.
#include "dtn/autograd/gradcheck.h"
#include "dtn/ops/drop.h"
#include "dtn/ops/linear.h"
#include "norm_cases.h"

namespace dtn {
namespace {

using test::BuiltNorm;
using test::NormCase;
using test::random_tensor;

const NormShape kShape{10, 5, 1e-3};  // two channels per head; Eq. 7 leaves one head over
constexpr std::int64_t kBatch = 2;

NormShape shape_on(const TokenGrid& grid) {
  NormShape shape = kShape;
  shape.grid = grid;
  return shape;
}

// Returns up to three grids; the sides of the last one are multiples of 2.
std::vector<TokenGrid> grids(const NormCase& c) {
  std::vector<TokenGrid> all;
  for (TokenGrid grid : {TokenGrid{3, 4}, TokenGrid{1, 7}, TokenGrid{5, 5}, TokenGrid{4, 6}}) {
    if (c.config.takes_prefix()) grid.prefix = grid.height == 1 ? 1 : 2;
    if (all.size() < 3 && test::fits(c, shape_on(grid))) all.push_back(grid);
  }
  return all;
}

using Piece = std::function<Variable(Context&, Normalizer&, const Variable& x)>;

// Checks the gradients of x and of all parameters with an effect. The other parameters must get no
// gradient.
void check(const NormCase& c, const TokenGrid& grid, const Piece& piece) {
  if (c.training && test::schema_of(c).approximate_gradient) GTEST_SKIP() << "no exact gradient";
  test::Threads one(1);  // thousands of tiny passes
  auto built = test::build_norm(c.config, shape_on(grid), DType::kFloat64);
  std::string name = cat(c.name, ", grid ", grid.height, " x ", grid.width);
  std::vector<Tensor> inputs = {random_tensor({kBatch, grid.tokens(), kShape.channels}, 1, 1.5)};
  std::vector<Parameter*> parameters;
  for (Parameter& p : built->store.parameters()) {
    if (test::is_inert(p)) continue;
    parameters.push_back(&p);
    inputs.push_back(p.variable.value());
  }
  auto f = [&](Context& ctx, const std::vector<Variable>& v) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->variable = v[i + 1];
    return piece(ctx, *built->norm, v[0]);
  };
  Context base;
  base.mode.training = c.training;
  GradcheckResult r = gradcheck(f, inputs, base);
  EXPECT_LE(r.max_relative_error, 1e-6)
      << name << ": " << r.worst << " (input 0 is x, then the parameters in order)";
  EXPECT_GT(r.smallest_gradient, 0) << name;
  for (const Parameter& p : built->store.parameters()) {
    if (test::is_inert(p)) {
      EXPECT_EQ(test::max_abs(test::doubles(p.variable.grad())), 0) << p.name;
    }
  }
}

class NormGradients : public testing::TestWithParam<NormCase> {};

TEST_P(NormGradients, FusedPass) {
  for (TokenGrid grid : grids(GetParam())) {
    check(GetParam(), grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
      Variable y = norm.forward(ctx, x, grid);
      EXPECT_TRUE(!ctx.tape || ctx.tape->size() == 1) << "not the fused pass";
      return y;
    });
  }
}

TEST_P(NormGradients, Reference) {
  for (TokenGrid grid : grids(GetParam())) {
    check(GetParam(), grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
      return norm.reference(ctx, x, grid);
    });
  }
}

// x also bypasses the norm, so x already has a gradient in the backward pass: first in shared
// memory, then in separate memory.
TEST_P(NormGradients, AccumulatesIntoExistingInputGradient) {
  TokenGrid grid = grids(GetParam()).front();
  check(GetParam(), grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
    return ops::residual_add(ctx, x, norm.forward(ctx, x, grid), {});
  });
  check(GetParam(), grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
    Variable normed = norm.forward(ctx, x, grid);
    return ops::residual_add(ctx, ops::gelu(ctx, x), normed, {});
  });
}

std::string name_of_case(const testing::TestParamInfo<NormCase>& each) {
  std::string name = each.param.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, NormGradients, testing::ValuesIn(test::norm_cases()),
                         name_of_case);

// Sequences of 7 and 4 tokens; the second one has three tokens of padding.
TokenGrid padded_sequence() { return {1, 7, 0, Tensor::from<std::int64_t>({7, 4}, {kBatch})}; }

std::vector<NormCase> cases_with_lengths() {
  std::vector<NormCase> cases;
  for (const NormCase& c : test::norm_cases()) {
    const NormShape shape = shape_on(padded_sequence());
    if (!test::fits(c, shape)) continue;
    const auto built = test::build_norm(c.config, shape, DType::kFloat64);
    if (built->norm->takes_lengths()) cases.push_back(c);
  }
  return cases;
}

class PaddedNormGradients : public testing::TestWithParam<NormCase> {};

TEST_P(PaddedNormGradients, IgnorePadding) {
  const TokenGrid grid = padded_sequence();
  check(GetParam(), grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
    return norm.forward(ctx, x, grid);
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, PaddedNormGradients, testing::ValuesIn(cases_with_lengths()),
                         name_of_case);

// With fixed lambda 0 all statistics are across tokens; with lambda 1 none are.
TEST(DtnGradients, LambdaZeroAndOne) {
  TokenGrid grid{3, 4};
  for (const char* variant : {"paper", "official"}) {
    NormCase c{cat("dtn ", variant, " lambda 0"), {}};
    NormConfig& config = c.config;
    config.type = "dtn";
    config.options = {
        {"variant", std::string(variant)}, {"init", std::string("trunc_normal")}, {"lambda", 0.0}};
    check(c, grid, [&](Context& ctx, Normalizer& norm, const Variable& x) {
      return norm.forward(ctx, x, grid);
    });
    config.options[2].value = 1.0;
    auto built = test::build_norm(config, kShape, DType::kFloat64);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    Variable x(random_tensor({kBatch, 12, kShape.channels}, 2), true);
    Variable y = built->norm->forward(ctx, x, grid);
    tape.backward(y, random_tensor(y.shape(), 3));
    Tensor dposition = built->store.find("norm.pos_proj.weight")->variable.grad();
    EXPECT_EQ(test::max_abs(test::doubles(dposition)), 0);
    EXPECT_GT(test::max_abs(test::doubles(x.grad())), 0);
  }
}

// dx is not needed if the norm is the first layer that trains.
TEST_P(NormGradients, ParametersWithoutInputGradient) {
  if (!test::has_weight(GetParam().config.type)) GTEST_SKIP() << "has no parameters";
  TokenGrid grid = grids(GetParam()).front();
  auto with = test::build_norm(GetParam().config, shape_on(grid), DType::kFloat64);
  auto without = test::build_norm(GetParam().config, shape_on(grid), DType::kFloat64);
  for (BuiltNorm* built : {with.get(), without.get()}) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = GetParam().training;
    Variable x(random_tensor({kBatch, grid.tokens(), kShape.channels}, 4), built == with.get());
    Variable y = built->norm->forward(ctx, x, grid);
    tape.backward(y, random_tensor(y.shape(), 5));
  }
  EXPECT_TRUE(test::same_bits(with->store.gradients(), without->store.gradients()));
  EXPECT_GT(test::max_abs(test::doubles(with->store.gradients())), 0);
}

}  // namespace
}  // namespace dtn
