// Compares every normalizer of the registry in float32 and bfloat16 with its reference in float64.
#include "dense_dtn.h"
#include "norm_cases.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::Doubles;
using test::NormCase;
using test::random_tensor;

struct Setting {
  std::string name;
  std::int64_t batch;
  TokenGrid grid;
  NormShape shape;
  NormShape built_for() const { return {shape.channels, shape.heads, shape.eps, grid}; }
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"T 196, C 432, H 9", 1, {14, 14}, {432, 9, 1e-5}},
      {"T 197, C 48, H 4", 2, {1, 197}, {48, 4, 1e-5}},
      {"primes", 3, {7, 5}, {77, 11, 1e-5}},
      {"one token", 1, {1, 1}, {24, 3, 1e-5}},
      {"even sides", 3, {10, 6}, {76, 4, 1e-5}},
  };
  return all;
}
// Settings that the normalizer supports. Pairs of unusual options use only the small settings.
std::vector<Setting> settings(const NormCase& c) {
  int unusual = 0;
  for (const OptionSchema& o : test::schema_of(c).options) {
    for (const NormOption& given : c.config.options) {
      unusual += given.key == o.key && given.value != o.default_value;
    }
  }
  std::vector<Setting> fitting;
  for (Setting s : settings()) {
    if (unusual > 1 && s.grid.tokens() > 100) continue;
    // BatchNorm refuses to train on a single value per channel.
    if (c.training && c.config.type == "bn" && s.batch * s.grid.tokens() == 1) continue;
    // A class token alone, or also a distillation token and registers.
    if (c.config.takes_prefix()) s.grid.prefix = s.batch == 3 ? 6 : 1;
    if (test::fits(c, s.built_for())) fitting.push_back(s);
  }
  return fitting;
}

// Returns the output, the gradient of x, and the gradients of the parameters in order.
std::vector<Doubles> run_norm(const NormCase& c, const Setting& s, const Tensor& x, DType dtype,
                              bool reference,
                              const std::function<void(ParameterStore&)>& edit = nullptr) {
  auto built = test::build_norm(c.config, s.built_for(), accumulator_of(dtype));
  if (edit) edit(built->store);
  Variable input(test::as(x, dtype).clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  Variable y = reference ? built->norm->reference(ctx, input, s.grid)
                         : built->norm->forward(ctx, input, s.grid);
  std::vector<Doubles> results = {test::doubles(y.value())};
  tape.backward(y, test::as(test::representable(random_tensor(y.shape(), 77)), dtype));
  results.push_back(test::doubles(input.grad()));
  for (const Parameter& p : built->store.parameters()) {
    results.push_back(test::doubles(ParameterStore::view(built->store.gradients(), p)));
  }
  return results;
}

bool uses_grid(const NormCase& c) { return test::schema_of(c).needs_grid; }

Shape shape_of(const Setting& s) { return {s.batch, s.grid.tokens(), s.shape.channels}; }

// Tolerance for sums over rows and channels. `conditioning` is |x| / sqrt(var + eps), the factor by
// which the rounding of a mean is amplified in the result.
double float32_tolerance(const Setting& s, double conditioning = 0) {
  return test::float32_tolerance(s.batch * s.grid.tokens() + s.shape.channels) +
         5 * test::unit_roundoff(DType::kFloat32) * conditioning;
}

// Gradients of position weights also sum over the pairs of tokens along either axis.
double parameter_tolerance(const NormCase& c, const Setting& s) {
  std::int64_t pairs =
      uses_grid(c) ? s.grid.height * s.grid.height + s.grid.width * s.grid.width : 0;
  return test::float32_tolerance(s.batch * s.grid.tokens() + s.shape.channels + pairs);
}

// Compares `count` results from `first` on, relative to the largest wanted value, or to `least`.
void compare(const std::vector<Doubles>& got, const std::vector<Doubles>& want, double tolerance,
             const std::string& what, std::size_t first = 0, std::size_t count = 99,
             double least = 0) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = first; i < std::min(got.size(), first + count); ++i) {
    EXPECT_LE(test::max_abs_difference(got[i], want[i]),
              tolerance * std::max(test::max_abs(want[i]), least))
        << what
        << (i == 0   ? ", output"
            : i == 1 ? ", dx"
                     : cat(", parameter ", i - 2));
  }
}

class NormParity : public testing::TestWithParam<NormCase> {};

TEST_P(NormParity, RandomTokens) {
  for (const Setting& s : settings(GetParam())) {
    Tensor x = test::representable(random_tensor(shape_of(s), 1, 2, 0.5));
    auto want = run_norm(GetParam(), s, x, DType::kFloat64, true);
    EXPECT_GT(test::max_abs(want[0]), 0);
    compare(run_norm(GetParam(), s, x, DType::kFloat64, false), want, 1e-11, s.name + ", float64");
    auto single = run_norm(GetParam(), s, x, DType::kFloat32, false);
    compare(single, want, float32_tolerance(s), s.name + ", float32", 0, 2);
    compare(single, want, parameter_tolerance(GetParam(), s), s.name + ", float32", 2);
    // In the float32 reference the dense position scores reach thousands, so its gradients of the
    // position weights are less exact than those of the fused pass.
    compare(run_norm(GetParam(), s, x, DType::kFloat32, true), want, float32_tolerance(s),
            s.name + ", float32 reference", 0, 2);
    compare(run_norm(GetParam(), s, x, DType::kBFloat16, true), want, test::bfloat16_tolerance(1),
            s.name + ", bfloat16 reference", 0, 2);
    // Statistics are float32: y and dx are rounded once, parameter gradients not at all.
    auto low = run_norm(GetParam(), s, x, DType::kBFloat16, false);
    compare(low, want, test::bfloat16_tolerance(1), s.name + ", bfloat16", 0, 2);
    compare(low, want, parameter_tolerance(GetParam(), s), s.name + ", bfloat16", 2);
  }
}

TEST_P(NormParity, ZeroGamma) {
  if (!test::has_weight(GetParam().config.type)) GTEST_SKIP() << "has no gamma";
  for (const Setting& s : settings(GetParam())) {
    Tensor x = test::representable(random_tensor(shape_of(s), 2));
    auto zero_gamma = [](ParameterStore& store) {
      Tensor gamma = store.find("norm.weight")->variable.value();
      gamma.zero();
    };
    auto want = run_norm(GetParam(), s, x, DType::kFloat64, true, zero_gamma);
    auto got = run_norm(GetParam(), s, x, DType::kFloat32, false, zero_gamma);
    // The running mean contributes to the backward pass without passing through gamma.
    if (!GetParam().training || !test::schema_of(GetParam()).approximate_gradient) {
      EXPECT_EQ(test::max_abs(got[1]), 0) << "nothing flows through gamma 0";
    }
    // dgamma needs x-hat, although y does not depend on it.
    EXPECT_TRUE(s.grid.tokens() == 1 || test::max_abs(want[2]) > 0);
    compare(got, want, float32_tolerance(s), s.name + ", gamma 0");
  }
}

// Tokens without variance over channels, and constant images. The variance is 0 or almost 0. Then
// eps determines the quotient, and the rounding of a mean is amplified by |x| / sqrt(eps).
TEST_P(NormParity, ConstantRows) {
  // Without a bias the output is 0; normalized values are of the order of 1.
  const double least = test::has_weight(GetParam().config.type) ? 0 : 1;
  for (const Setting& s : settings(GetParam())) {
    for (bool whole_image : {false, true}) {
      Tensor x = Tensor::empty(shape_of(s), DType::kFloat64);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        std::int64_t row = i / s.shape.channels;
        x.data<double>()[i] = whole_image ? 0.75 : 0.25 + 0.125 * static_cast<double>(row % 7);
      }
      // A variance across tokens is a difference of squares relative to the image's mean. If the
      // variance is small compared with the spread, the rounding of those squares is relative to
      // eps.
      double spread = whole_image || !uses_grid(GetParam()) ? 0 : 0.375;
      double conditioning = 1 / std::sqrt(s.shape.eps) + spread * spread / s.shape.eps;
      std::string name = s.name + (whole_image ? ", constant image" : ", constant rows");
      auto want = run_norm(GetParam(), s, x, DType::kFloat64, true);
      auto got = run_norm(GetParam(), s, x, DType::kFloat32, false);
      compare(got, want, float32_tolerance(s, conditioning), name, 0, 2, least);
      auto low = run_norm(GetParam(), s, x, DType::kBFloat16, false);
      compare(low, want, test::bfloat16_tolerance(1) + float32_tolerance(s, conditioning),
              name + ", bfloat16", 0, 2, least);
      for (const auto& results : {got, low}) {
        for (const Doubles& r : results) EXPECT_TRUE(std::isfinite(test::max_abs(r))) << name;
      }
    }
  }
}

// Mean 1000, standard deviation about 1: a variance as a difference of squares would lose all
// digits.
TEST_P(NormParity, LargeMean) {
  for (const Setting& s : settings(GetParam())) {
    if (s.grid.tokens() == 1) continue;
    Tensor x =
        test::as(test::as(random_tensor(shape_of(s), 3, std::sqrt(3.0), 1e3), DType::kFloat32),
                 DType::kFloat64);
    auto want = run_norm(GetParam(), s, x, DType::kFloat64, true);
    compare(run_norm(GetParam(), s, x, DType::kFloat32, false), want, float32_tolerance(s, 1e3),
            s.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, NormParity, testing::ValuesIn(test::norm_cases()),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

// --- Dynamic Token Normalization ----------------------------------------------------------------

NormCase dtn_case(const std::string& variant, OptionValue lambda = std::string("learnable"),
                  const std::string& position = "relative") {
  NormCase c;
  c.config.type = c.name = "dtn";
  c.config.options = {{"variant", variant}, {"lambda", std::move(lambda)}, {"position", position}};
  return c;
}

void initial_values(ParameterStore& store) { store.initialize(0); }  // gamma 1, beta 0

TEST(DtnNormalizer, LambdaOneIsLayerNorm) {
  NormCase ln;
  ln.config.type = "ln";
  for (const Setting& s : settings()) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      Tensor x = test::representable(random_tensor(shape_of(s), 4, 2));
      auto want = run_norm(ln, s, x, dtype, false);
      auto got = run_norm(dtn_case("paper", 1.0), s, x, dtype, false);
      got.resize(4);  // y, dx, dweight, dbias; ln has no pos_proj
      double tolerance =
          float32_tolerance(s) * test::unit_roundoff(dtype) / test::unit_roundoff(DType::kFloat32);
      compare(got, want, tolerance, cat(s.name, ", ", name_of(dtype)));
    }
  }
}

// InstanceNorm of x, where each token uses the statistics of the tokens within `reach` in raster
// order.
Doubles local_instance_norm(const Setting& s, const Tensor& x, std::int64_t reach) {
  const std::int64_t tokens = s.grid.tokens(), channels = s.shape.channels;
  auto at = [&](std::int64_t b, std::int64_t t, std::int64_t c) {
    return static_cast<std::size_t>((b * tokens + t) * channels + c);
  };
  const Doubles in = test::doubles(x);
  Doubles out(in.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t first = std::max<std::int64_t>(t - reach, 0);
      const std::int64_t end = std::min(t + reach + 1, tokens);
      const double n = static_cast<double>(end - first);
      for (std::int64_t c = 0; c < channels; ++c) {
        double mean = 0, var = 0;
        for (std::int64_t j = first; j < end; ++j) mean += in[at(b, j, c)] / n;
        for (std::int64_t j = first; j < end; ++j) var += std::pow(in[at(b, j, c)] - mean, 2) / n;
        out[at(b, t, c)] = (in[at(b, t, c)] - mean) / std::sqrt(var + s.shape.eps);
      }
    }
  }
  return out;
}

// With lambda 0 all statistics are across tokens. Equal weights for all tokens of an image give
// InstanceNorm. Equal weights for the neighbours give a local InstanceNorm.
TEST(DtnNormalizer, LambdaZeroIsInstanceNorm) {
  for (const Setting& s : settings()) {
    const Tensor x = random_tensor(shape_of(s), 5, 2);
    auto largest_error = [&](const char* position, std::int64_t reach) {
      auto got =
          run_norm(dtn_case("paper", 0.0, position), s, x, DType::kFloat64, false, initial_values);
      EXPECT_EQ(got.size(), 4u) << "y, dx, dweight, dbias: nothing else to learn";
      return test::max_abs_difference(got[0], local_instance_norm(s, x, reach));
    };
    EXPECT_LE(largest_error("uniform", s.grid.tokens()), 1e-12) << s.name;
    EXPECT_LE(largest_error("banded:1", 0), 1e-12) << s.name;
    EXPECT_LE(largest_error("banded:5", 2), 1e-12) << s.name;
    EXPECT_LE(largest_error("banded:401", s.grid.tokens()), 1e-12) << s.name;
  }
}

Doubles value_of(test::BuiltNorm& built, const char* name) {
  return test::doubles(built.store.find(cat("norm.", name))->variable.value());
}

// A table that holds the scores of relative positions gives the results of relative positions.
TEST(DtnNormalizer, TableOfRelativeScoresMatchesRelativePositions) {
  for (const char* variant : {"paper", "official"}) {
    for (std::int64_t pool : {1, 2}) {
      const Setting& s = settings().back();
      const Tensor x = random_tensor(shape_of(s), 5, 2);
      NormCase relative = dtn_case(variant),
               table = dtn_case(variant, std::string("learnable"), "free");
      for (NormCase* c : {&relative, &table}) c->config.options.push_back({"pool", pool});
      const Doubles a = value_of(*test::build_norm(relative.config, s.built_for(), DType::kFloat64),
                                 "pos_proj.weight");
      const double sign = std::string(variant) == "official" ? -1 : 1;
      const std::int64_t width = s.grid.width / pool, n = s.grid.tokens() / (pool * pool);
      auto with_scores = [&](ParameterStore& store) {
        Tensor scores = store.find("norm.position_table")->variable.value();
        double* score = scores.data<double>();
        for (std::int64_t h = 0; h < s.shape.heads; ++h) {
          const double* w = &a[static_cast<std::size_t>(3 * h)];
          for (std::int64_t ij = 0; ij < n * n; ++ij) {
            const std::int64_t i = ij / n, j = ij % n;
            const double dx = sign * static_cast<double>(j % width - i % width);
            const double dy = sign * static_cast<double>(j / width - i / width);
            *score++ = w[0] * dx + w[1] * dy + w[2] * (dx * dx + dy * dy);
          }
        }
        for (const char* name : {"weight", "bias", "mean_norm_weight", "var_norm_weight"}) {
          auto same = test::build_norm(relative.config, s.built_for(), DType::kFloat64);
          Tensor value = store.find(cat("norm.", name))->variable.value();
          value.copy_from(same->store.find(cat("norm.", name))->variable.value());
        }
      };
      auto want = run_norm(relative, s, x, DType::kFloat64, false);
      auto got = run_norm(table, s, x, DType::kFloat64, false, with_scores);
      want.resize(6);  // y, dx, dweight, dbias and the lambdas
      got.resize(6);
      compare(got, want, 1e-11, cat(variant, ", pool ", pool));
    }
  }
}

// Results of the oracle for a set of options, in the order of run_norm().
std::vector<Doubles> oracle(const NormCase& c, const Setting& s, const Tensor& x) {
  auto built = test::build_norm(c.config, s.built_for(), DType::kFloat64);
  auto option = [&](const char* key) { return *c.config.find<std::string>(key); };
  const bool learned = option("lambda") == "learnable", only_var = *c.config.find<bool>("only_var");
  auto sigmoid = [](Doubles z) {
    for (double& v : z) v = 1 / (1 + std::exp(-v));
    return z;
  };
  test::DenseDtn dense{static_cast<int>(s.batch), static_cast<int>(s.grid.height),
                       static_cast<int>(s.grid.width), static_cast<int>(s.shape.channels),
                       static_cast<int>(s.shape.heads)};
  dense.eps = s.shape.eps;
  dense.official = option("variant") == "official";
  dense.pool = static_cast<int>(*c.config.find<std::int64_t>("pool"));
  dense.x = test::doubles(x);
  dense.weight = value_of(*built, "weight");
  dense.bias = value_of(*built, "bias");
  const Doubles ones(static_cast<std::size_t>(s.shape.heads), 1.0);
  dense.lambda_mean = only_var ? ones : sigmoid(value_of(*built, "mean_norm_weight"));
  dense.lambda_var = sigmoid(value_of(*built, "var_norm_weight"));
  const std::string position = option("position");
  if (position == "relative") dense.pos_weight = value_of(*built, "pos_proj.weight");
  if (position == "free") dense.position_table = value_of(*built, "position_table");
  if (position == "uniform") dense.band = 2 * dense.cells() - 1;
  if (position == "banded:5") dense.band = 5;
  auto g = dense.backward(test::doubles(test::representable(random_tensor(shape_of(s), 77))));
  auto to_logit = [](Doubles d, const Doubles& l) {
    for (std::size_t h = 0; h < d.size(); ++h) d[h] *= l[h] * (1 - l[h]);
    return d;
  };
  EXPECT_TRUE(learned);
  std::vector<Doubles> results = {dense.forward(), g.x, g.weight, g.bias};
  if (!only_var) results.push_back(to_logit(g.lambda_mean, dense.lambda_mean));
  results.push_back(to_logit(g.lambda_var, dense.lambda_var));
  if (position == "free") results.push_back(g.position_table);
  if (position == "relative") {
    results.push_back(g.pos_weight);
    results.emplace_back(static_cast<std::size_t>(s.shape.heads));  // gradient of the inert bias
  }
  return results;
}

TEST(DtnNormalizer, MatchesDenseReference) {
  for (const char* variant : {"paper", "official"}) {
    for (const char* position : {"relative", "uniform", "free", "banded:5"}) {
      for (std::int64_t pool : {1, 2}) {
        for (bool only_var : {false, true}) {
          NormCase c = dtn_case(variant, std::string("learnable"), position);
          c.config.options.push_back({"init", std::string("local")});
          c.config.options.push_back({"pool", pool});
          c.config.options.push_back({"only_var", only_var});
          for (const Setting& s : settings(c)) {
            if (s.grid.tokens() == 196) continue;  // the oracle is O(T^2)
            Tensor x = test::representable(random_tensor(shape_of(s), 6, 2, 0.25));
            auto want = oracle(c, s, x);
            std::string name = cat(variant, ", ", position, ", pool ", pool,
                                   only_var ? ", only var, " : ", ", s.name);
            compare(run_norm(c, s, x, DType::kFloat64, false), want, 1e-11, name + ", float64");
            auto single = run_norm(c, s, x, DType::kFloat32, false);
            compare(single, want, float32_tolerance(s), name + ", float32", 0, 2);
            compare(single, want, parameter_tolerance(c, s), name + ", float32", 2);
          }
        }
      }
    }
  }
}

// Returns the message of the Error that `body` throws.
template <class F>
std::string message_of(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
}

TEST(DtnNormalizer, RejectsTokenCountThatDoesNotMatchGrid) {
  auto built = test::build_norm(dtn_case("paper").config, {12, 3, 1e-5}, DType::kFloat32);
  Context ctx;
  Variable x(Tensor::zeros({1, 13, 12}, DType::kFloat32));
  EXPECT_THROW(built->norm->forward(ctx, x, {3, 4}), Error);
  EXPECT_THROW(test::build_norm(dtn_case("paper").config, {13, 3, 1e-5}, DType::kFloat32), Error);
}

TEST(DtnNormalizer, RejectsGridThatDoesNotMatchPositions) {
  Context ctx;
  Variable x(Tensor::zeros({1, 12, 12}, DType::kFloat32));
  const NormConfig table = dtn_case("paper", 0.5, "free").config;
  expect_words(message_of([&] {
                 test::build_norm(table, {12, 3, 1e-5}, DType::kFloat32);
               }),
               {"free", "grid"});
  auto built = test::build_norm(table, {12, 3, 1e-5, {3, 4}}, DType::kFloat32);
  built->norm->forward(ctx, x, {3, 4});
  for (bool reference : {false, true}) {
    expect_words(
        message_of([&] {
          reference ? built->norm->reference(ctx, x, {4, 3}) : built->norm->forward(ctx, x, {4, 3});
        }),
        {"3 x 4", "4 x 3"});
  }
  NormConfig pooled = dtn_case("paper").config;
  pooled.options.push_back({"pool", std::int64_t{2}});
  expect_words(message_of([&] {
                 test::build_norm(pooled, {12, 3, 1e-5, {3, 4}}, DType::kFloat32);
               }),
               {"3 x 4", "2 x 2"});
  built = test::build_norm(pooled, {12, 3, 1e-5}, DType::kFloat32);
  expect_words(message_of([&] { built->norm->forward(ctx, x, {3, 4}); }), {"3 x 4", "2 x 2"});
}

TEST(DtnNormalizer, RejectsInitializationOfOtherPositionKinds) {
  for (const char* position : {"uniform", "free", "banded:3"}) {
    NormConfig config = dtn_case("paper", 0.5, position).config;
    config.options.push_back({"init", std::string("trunc_normal")});
    expect_words(message_of([&] {
                   test::build_norm(config, {12, 3, 1e-5, {3, 4}}, DType::kFloat32);
                 }),
                 {position, "relative"});
  }
  for (const char* position : {"banded:2", "banded:0", "banded:-3", "banded:x", "banded:"}) {
    EXPECT_THROW(test::build_norm(dtn_case("paper", 0.5, position).config, {12, 3, 1e-5, {3, 4}},
                                  DType::kFloat32),
                 ConfigError);
  }
}

// Results have the same bits on any number of threads, forward and backward.
TEST_P(NormParity, DoesNotDependOnThreads) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Setting s = settings(GetParam()).back();
    Tensor x = random_tensor(shape_of(s), 7, 2);
    std::vector<Doubles> first;
    for (int threads : test::kThreadCounts) {
      test::Threads scope(threads);
      auto got = run_norm(GetParam(), s, x, dtype, false);
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads, " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace dtn
