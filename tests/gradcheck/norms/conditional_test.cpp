// Checks every conditional normalizer against central differences in float64, with respect to the
// input, the condition and every parameter. Also checks the gate and the moment shortcut.
#include "conditional_cases.h"
#include "dtn/autograd/gradcheck.h"
#include "dtn/ops/drop.h"

namespace dtn {
namespace {

using test::ConditionalCase;
using test::ConditionKind;
using test::random_tensor;

constexpr std::int64_t kBatch = 3, kChannels = 6;
const TokenGrid kGrid{3, 4};

using Piece =
    std::function<Variable(Context&, ConditionalNormalizer&, const Variable& x, const Condition&)>;

// Checks the gradients of `f` with respect to all inputs and to every parameter of the store.
void check_all(const std::string& name, ParameterStore& store, std::vector<Tensor> inputs,
               const std::function<Variable(Context&, const std::vector<Variable>&)>& f,
               bool training = false) {
  test::Threads one(1);  // thousands of tiny passes
  const std::size_t own = inputs.size();
  for (Parameter& p : store.parameters()) inputs.push_back(p.variable.value());
  Context base;
  base.mode.training = training;
  GradcheckResult r = gradcheck(
      [&](Context& ctx, const std::vector<Variable>& v) {
        std::size_t i = own;
        for (Parameter& p : store.parameters()) p.variable = v[i++];
        return f(ctx, v);
      },
      inputs, base);
  EXPECT_LE(r.max_relative_error, 1e-6) << name << ": " << r.worst;
  EXPECT_GT(r.smallest_gradient, 0) << name;
}

void check(const ConditionalCase& c, const Piece& piece) {
  auto built = test::build_conditional(c, kChannels, DType::kFloat64);
  std::vector<Tensor> inputs = {random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 1.5)};
  Tensor values = test::condition_values(c, kBatch, kGrid.tokens(), kChannels);
  if (values.defined()) inputs.push_back(values);
  check_all(
      c.name, built->store, inputs,
      [&](Context& ctx, const std::vector<Variable>& v) {
        return piece(ctx, *built->norm, v[0],
                     test::make_condition(c, kBatch, values.defined() ? v[1] : Variable()));
      },
      c.training);
}

class ConditionalGradients : public testing::TestWithParam<ConditionalCase> {};

TEST_P(ConditionalGradients, FusedPass) {
  check(GetParam(), [](Context& ctx, ConditionalNormalizer& norm, const Variable& x,
                       const Condition& c) { return norm.forward(ctx, x, kGrid, c); });
}

TEST_P(ConditionalGradients, Reference) {
  check(GetParam(), [](Context& ctx, ConditionalNormalizer& norm, const Variable& x,
                       const Condition& c) { return norm.reference(ctx, x, kGrid, c); });
}

TEST_P(ConditionalGradients, AccumulatesIntoExistingInputGradient) {
  check(GetParam(),
        [](Context& ctx, ConditionalNormalizer& norm, const Variable& x, const Condition& c) {
          return ops::residual_add(ctx, x, norm.forward(ctx, x, kGrid, c), {});
        });
}

// Each gradient is the same whether x, the condition, both or neither need gradients.
TEST_P(ConditionalGradients, AreSameForAnySubsetOfRequestedGradients) {
  const ConditionalCase& c = GetParam();
  Tensor values = test::condition_values(c, kBatch, kGrid.tokens(), kChannels);
  std::vector<test::Doubles> parameters, conditions;
  for (bool wants_x : {true, false}) {
    for (bool wants_condition : {true, false}) {
      auto built = test::build_conditional(c, kChannels, DType::kFloat64);
      Tape tape;
      Context ctx;
      ctx.tape = &tape;
      ctx.mode.training = c.training;
      Variable x(random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 1.5), wants_x);
      Variable v = values.defined() ? Variable(values, wants_condition) : Variable();
      Variable y = built->norm->forward(ctx, x, kGrid, test::make_condition(c, kBatch, v));
      if (!y.requires_grad()) continue;  // nothing to train
      tape.backward(y, random_tensor(y.shape(), 2));
      parameters.push_back(test::doubles(built->store.gradients()));
      if (wants_condition && v.defined()) conditions.push_back(test::doubles(v.grad()));
    }
  }
  for (const auto& p : parameters) EXPECT_EQ(p, parameters[0]);
  for (const auto& d : conditions) EXPECT_EQ(d, conditions[0]);
}

INSTANTIATE_TEST_SUITE_P(All, ConditionalGradients, testing::ValuesIn(test::conditional_cases()),
                         [](const auto& each) { return each.param.name; });

// The gated branch of adaLN-Zero.
TEST(ConditionalModuleGradients, AdaptiveLayerNormGate) {
  for (bool fused : {true, false}) {
    ParameterStore store;
    AdaptiveLayerNorm norm({store, "norm"}, {.channels = kChannels, .condition = 4, .gate = true});
    store.allocate(DType::kFloat64);
    for (Parameter& p : store.parameters()) {
      test::assign(p.variable.value(), random_tensor(p.shape, 31));
    }
    check_all("gate", store,
              {random_tensor({kBatch, kGrid.tokens(), kChannels}, 1, 1.5),
               random_tensor({kBatch, 4}, 32)},
              [&](Context& ctx, const std::vector<Variable>& v) {
                Condition c = Condition::of_vector(v[1]);
                Variable y =
                    fused ? norm.forward(ctx, v[0], kGrid, c) : norm.reference(ctx, v[0], kGrid, c);
                Variable gate = fused ? norm.gate(ctx, c) : norm.reference_gate(ctx, c);
                return fused ? ops::gated_add(ctx, v[0], gate, y)
                             : ops::reference::gated_add(ctx, v[0], gate, y);
              });
  }
}

// The whole path: moments of an encoder go through the shortcut to features of a decoder.
TEST(ConditionalModuleGradients, DynamicMomentShortcut) {
  for (bool fused : {true, false}) {
    ParameterStore store;
    DynamicMomentShortcut shortcut({store, "shortcut"}, {.channels = 4, .hidden = 5});
    store.allocate(DType::kFloat64);
    for (Parameter& p : store.parameters()) {
      test::assign(p.variable.value(), random_tensor(p.shape, 33, 0.5));
    }
    PositionalNorm norm(1e-3);
    check_all("shortcut", store,
              {random_tensor({2, kGrid.tokens(), kChannels}, 34, 1.5),
               random_tensor({2, kGrid.tokens(), 4}, 35)},
              [&](Context& ctx, const std::vector<Variable>& v) {
                auto [y, mean, std] = fused ? norm.forward(ctx, v[0]) : norm.reference(ctx, v[0]);
                return fused ? shortcut.forward(ctx, v[1], kGrid, mean, std)
                             : shortcut.reference(ctx, v[1], kGrid, mean, std);
              });
  }
}

}  // namespace
}  // namespace dtn
