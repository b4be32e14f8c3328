// Compares every conditional normalizer in float32 and bfloat16 with its reference in float64, and
// with equivalent normalizers.
#include "conditional_cases.h"
#include "dtn/ops/primitive.h"
#include "op_runs.h"

namespace dtn {
namespace {

using test::ConditionalCase;
using test::ConditionKind;
using test::Doubles;
using test::random_tensor;

struct Setting {
  std::string name;
  std::int64_t batch;
  TokenGrid grid;
  std::int64_t channels;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"T 196, C 96", 2, {14, 14}, 96},
      {"T 197, C 40", 1, {1, 197}, 40},
      {"primes", 3, {7, 5}, 37},
  };
  return all;
}

// Returns the output and the gradients of x, of the condition (if any) and of the parameters, in
// order.
std::vector<Doubles> run_case(const ConditionalCase& c, const Setting& s, const Tensor& x,
                              DType dtype, bool reference) {
  auto built = test::build_conditional(c, s.channels, accumulator_of(dtype));
  Variable input(test::as(x, dtype).clone(), true);
  Tensor values = test::condition_values(c, s.batch, s.grid.tokens(), s.channels);
  Variable v = values.defined() ? Variable(test::as(values, dtype).clone(), true) : Variable();
  const Condition condition = test::make_condition(c, s.batch, v);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  ctx.mode.training = c.training;
  Variable y = reference ? built->norm->reference(ctx, input, s.grid, condition)
                         : built->norm->forward(ctx, input, s.grid, condition);
  EXPECT_EQ(y.dtype(), dtype);
  std::vector<Doubles> results = {test::doubles(y.value())};
  tape.backward(y, test::as(test::representable(random_tensor(y.shape(), 77)), dtype));
  results.push_back(test::doubles(input.grad()));
  if (v.defined()) results.push_back(test::doubles(v.grad()));
  for (const Parameter& p : built->store.parameters()) {
    results.push_back(test::doubles(ParameterStore::view(built->store.gradients(), p)));
  }
  return results;
}

Tensor input_of(const Setting& s, std::uint32_t stream, double spread = 2, double mean = 0.5) {
  return random_tensor({s.batch, s.grid.tokens(), s.channels}, stream, spread, mean);
}

// Number of bfloat16 roundings between the inputs and a result. By default only y and dx are
// rounded: gains and shifts are float32. dln adds the product, activation and mean of the summary,
// and their gradients. spade adds the two convolutions, the normalized values and their gradients.
int roundings(const ConditionalCase& c) {
  return c.name.starts_with("spade") ? 6 : c.name.starts_with("dln") ? 4 : 1;
}

class ConditionalParity : public testing::TestWithParam<ConditionalCase> {};

TEST_P(ConditionalParity, RandomTokens) {
  for (const Setting& s : settings()) {
    Tensor x = test::representable(input_of(s, 1));
    auto want = run_case(GetParam(), s, x, DType::kFloat64, true);
    // Sums over the tokens, the channels, and the inputs of a convolution.
    const double single = test::float32_tolerance(s.batch * s.grid.tokens() + s.channels + 9 * 5);
    test::expect_close(run_case(GetParam(), s, x, DType::kFloat64, false), want, 1e-11,
                       s.name + ", float64");
    test::expect_close(run_case(GetParam(), s, x, DType::kFloat32, false), want, single,
                       s.name + ", float32");
    test::expect_close(run_case(GetParam(), s, x, DType::kBFloat16, false), want,
                       test::bfloat16_tolerance(roundings(GetParam())) + single,
                       s.name + ", bfloat16");
  }
}

// Mean 1000, standard deviation about 1.
TEST_P(ConditionalParity, LargeMean) {
  // tanh is flat in this range, so the parameters of the summary get no gradient.
  const bool summary = GetParam().kind == ConditionKind::kNone;
  for (const Setting& s : settings()) {
    Tensor x =
        test::as(test::as(input_of(s, 3, std::sqrt(3.0), 1e3), DType::kFloat32), DType::kFloat64);
    auto want = run_case(GetParam(), s, x, DType::kFloat64, true);
    auto got = run_case(GetParam(), s, x, DType::kFloat32, false);
    if (summary) want.resize(2), got.resize(2);
    test::expect_close(got, want,
                       test::float32_tolerance(s.batch * s.grid.tokens() + s.channels + 9 * 5) +
                           5e3 * test::unit_roundoff(DType::kFloat32),
                       s.name);
  }
}

TEST_P(ConditionalParity, DoesNotDependOnThreads) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Setting& s = settings()[2];
    Tensor x = input_of(s, 7);
    std::vector<Doubles> first;
    for (int threads : test::kThreadCounts) {
      test::Threads scope(threads);
      auto got = run_case(GetParam(), s, x, dtype, false);
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << threads << " threads, " << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConditionalParity, testing::ValuesIn(test::conditional_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace dtn
