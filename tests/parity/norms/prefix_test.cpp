// DTN with `prefix: ln` consists of two norms: DTN for the tokens of the grid, and LayerNorm with
// the same weight, bias and eps for the tokens before them.
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn {
namespace {

using namespace dtn::test;

constexpr std::int64_t kBatch = 3, kChannels = 24, kHeads = 4;
constexpr double kEps = 1e-3;

NormConfig dtn_with(std::vector<NormOption> options) {
  NormConfig config;
  config.type = "dtn";
  config.options = std::move(options);
  return config;
}

// Returns tokens [begin, end) of x [B, T, C].
Tensor tokens_of(const Tensor& x, std::int64_t begin, std::int64_t end) {
  Tensor some = Tensor::empty({x.dim(0), end - begin, x.dim(2)}, x.dtype());
  for (std::int64_t b = 0; b < x.dim(0); ++b) {
    const Tensor image = x.slice(b, b + 1).reshape({x.dim(1), x.dim(2)});
    some.slice(b, b + 1).reshape({end - begin, x.dim(2)}).copy_from(image.slice(begin, end));
  }
  return some;
}

struct Result {
  Tensor y, dx;
  std::vector<Doubles> parameters;  // gradients; weight and bias first
};

// Runs a norm. If `like` is given, its parameters are copied by name.
Result run(const NormConfig& config, const TokenGrid& grid, const Tensor& x, const Tensor& dy,
           ParameterStore* like = nullptr) {
  auto built = build_norm(config, {kChannels, kHeads, kEps, grid}, accumulator_of(x.dtype()));
  for (Parameter& p : built->store.parameters()) {
    Tensor value = p.variable.value();
    if (like) value.copy_from(like->find(p.name)->variable.value());
  }
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable input(x.clone(), true);
  const Variable y = built->norm->forward(ctx, input, grid);
  tape.backward(y, dy.clone());
  Result result{y.value(), input.grad(), {}};
  for (const Parameter& p : built->store.parameters()) {
    result.parameters.push_back(doubles(p.variable.grad()));
  }
  return result;
}

Tensor some_tokens(const TokenGrid& grid, std::uint32_t stream, DType dtype) {
  return as(representable(random_tensor({kBatch, grid.tokens(), kChannels}, stream, 2, 0.5)),
            dtype);
}

TEST(DtnPrefix, IsLayerNormOnPrefixAndDtnOnGrid) {
  NormConfig layer_norm;
  layer_norm.type = "ln";
  for (const char* position : {"relative", "free"}) {
    for (std::int64_t prefix : {1, 5}) {
      for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
        const TokenGrid grid{5, 4, prefix}, alone{5, 4}, ahead{1, prefix};
        const std::int64_t all = grid.tokens();
        const Tensor x = some_tokens(grid, 1, dtype), dy = some_tokens(grid, 2, dtype);
        const NormOption where{"position", std::string(position)};
        const NormConfig with = dtn_with({where, {"prefix", std::string("ln")}});
        auto built = build_norm(with, {kChannels, kHeads, kEps, grid}, accumulator_of(dtype));
        const Result got = run(with, grid, x, dy);
        const Result of_grid = run(dtn_with({where}), alone, tokens_of(x, prefix, all),
                                   tokens_of(dy, prefix, all), &built->store);
        const Result of_prefix = run(layer_norm, ahead, tokens_of(x, 0, prefix),
                                     tokens_of(dy, 0, prefix), &built->store);
        EXPECT_TRUE(same_bits(tokens_of(got.y, prefix, all), of_grid.y));
        EXPECT_TRUE(same_bits(tokens_of(got.y, 0, prefix), of_prefix.y));
        EXPECT_TRUE(same_bits(tokens_of(got.dx, prefix, all), of_grid.dx));
        EXPECT_TRUE(same_bits(tokens_of(got.dx, 0, prefix), of_prefix.dx));
        ASSERT_EQ(got.parameters.size(), of_grid.parameters.size());
        for (std::size_t i = 0; i < got.parameters.size(); ++i) {
          Doubles want = of_grid.parameters[i];
          for (std::size_t k = 0; i < 2 && k < want.size(); ++k)
            want[k] += of_prefix.parameters[i][k];
          const double roundoff =
              unit_roundoff(dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
          EXPECT_LE(max_abs_difference(got.parameters[i], want), 4 * roundoff * max_abs(want)) << i;
        }
      }
    }
  }
}

// Input of a last block of which only the class token is used.
TEST(DtnPrefix, WorksWithoutGrid) {
  const TokenGrid ahead{0, 0, 2};
  NormConfig layer_norm;
  layer_norm.type = "ln";
  const NormConfig with = dtn_with({{"prefix", std::string("ln")}});
  const Tensor x = some_tokens(ahead, 1, DType::kFloat32),
               dy = some_tokens(ahead, 2, DType::kFloat32);
  const Result got = run(with, ahead, x, dy), want = run(layer_norm, {1, 2}, x, dy);
  EXPECT_TRUE(same_bits(got.y, want.y));
  EXPECT_TRUE(same_bits(got.dx, want.dx));
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (i < 2) {
      EXPECT_EQ(got.parameters[i], want.parameters[i]);
    } else {
      EXPECT_EQ(max_abs(got.parameters[i]), 0) << "nobody is on the grid";
    }
  }
  auto built = build_norm(with, {kChannels, kHeads, kEps}, DType::kFloat32);
  Context ctx;
  const Variable reference = built->norm->reference(ctx, Variable(x), ahead);
  EXPECT_LE(max_abs_difference(doubles(reference.value()), doubles(got.y)), 1e-5);
}

std::string refusal(std::vector<NormOption> options) {
  try {
    build_norm(dtn_with(std::move(options)), {kChannels, kHeads, kEps}, DType::kFloat32);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(DtnPrefix, RejectsOfficialVariant) {
  const std::string why =
      refusal({{"variant", std::string("official")}, {"prefix", std::string("ln")}});
  EXPECT_NE(why.find("official"), std::string::npos) << why;
}

TEST(DtnLambdas, StartAtInitLambda) {
  for (double start : {0.5, 0.999, 0.99, 0.01}) {
    for (const char* variant : {"paper", "official"}) {
      auto built = build_norm(dtn_with({{"variant", std::string(variant)}, {"init_lambda", start}}),
                              {kChannels, kHeads, kEps}, DType::kFloat64, 0);
      built->store.initialize(1);
      for (const char* name : {"norm.mean_norm_weight", "norm.var_norm_weight"}) {
        for (double logit : doubles(built->store.find(name)->variable.value())) {
          EXPECT_NEAR(1 / (1 + std::exp(-logit)), start, 1e-12) << name;
          if (start == 0.5) {
            EXPECT_EQ(logit, 0);
          }
        }
      }
    }
  }
  for (double end : {0.0, 1.0}) {
    EXPECT_NE(refusal({{"init_lambda", end}}).find("init_lambda"), std::string::npos) << end;
  }
  const std::string fixed = refusal({{"lambda", 0.3}, {"init_lambda", 0.9}});
  EXPECT_NE(fixed.find("fixed at 0.3"), std::string::npos) << fixed;
}

}  // namespace
}  // namespace dtn
