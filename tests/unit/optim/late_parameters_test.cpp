// Late parameters: no update before a step of the run, and a count of updates that begins there.
#include <limits>

#include "kernels/optimizer/optimizer.h"
#include "optim/rates.h"
#include "take_step.h"
#include "tensors.h"

namespace dtn {
namespace {

constexpr int kSteps = 6, kSkipped = 3;  // the loss of step 3 is not finite
constexpr std::int64_t kLateFrom = 2;

void build(ParameterStore& store) {
  store.add("blocks.0.mlp.fc1.weight", {7, 5}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.mlp.fc2.weight", {5, 9}, InitKind::kTruncatedNormal, Decay::kYes)->late =
      true;
  store.add("head.weight", {3, 50}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("bias", {19}, InitKind::kZeros, Decay::kNo);
  store.add("head.bias", {11}, InitKind::kZeros, Decay::kNo)->late = true;
  store.allocate();
  store.enable_bfloat16();
  std::uint32_t stream = 1;
  for (Parameter& p : store.parameters()) {
    test::assign(p.variable.value(), test::random_tensor(p.shape, stream++));
  }
  store.refresh_bfloat16();
}

void set_gradients(ParameterStore& store, int step) {
  auto stream = static_cast<std::uint32_t>(100 * (step + 1));
  for (Parameter& p : store.parameters()) {
    test::assign(ParameterStore::view(store.gradients(), p),
                 test::random_tensor(p.shape, stream++));
  }
}

StepInputs inputs_of(int step) {
  return {0.01 * (1 + step % 3), 0.1 * (1 + step), static_cast<std::uint32_t>(step)};
}

// The state of the optimizer between steps.
struct States {
  UpdateState all, late;
};

// Takes one step in two micro-batches.
void take_step(Optimizer& optimizer, ParameterStore& store, States& states, int step,
               std::int64_t late_from) {
  set_gradients(store, step);
  const StepInputs inputs = inputs_of(step);
  const float loss = step == kSkipped ? std::numeric_limits<float>::quiet_NaN() : 2.0f;
  const double squares = 1;
  run(cpu_queue(), PrepareUpdate{&loss, &squares, 0.5, 0, &states.all, 1e-6, optimizer.beta1(),
                                 optimizer.beta2()});
  run(cpu_queue(), PrepareLateUpdate{&states.all, &inputs, late_from, optimizer.beta1(),
                                     optimizer.beta2(), &states.late});
  optimizer.step(&inputs, &states.all, &states.late);
}

struct Scalar {
  double p, m = 0, v = 0;
  int t = 0;
};

void adamw(const OptimConfig& config, const StepInputs& inputs, double g, bool decays, Scalar& s) {
  ++s.t;
  if (decays) s.p -= inputs.lr * inputs.weight_decay * s.p;
  s.m = config.beta1 * s.m + (1 - config.beta1) * g;
  s.v = config.beta2 * s.v + (1 - config.beta2) * g * g;
  const double m = s.m / (1 - std::pow(config.beta1, s.t));
  const double v = s.v / (1 - std::pow(config.beta2, s.t));
  s.p -= inputs.lr * m / (std::sqrt(v) + *config.eps);
}

TEST(LateParameters, MatchAdamWInFloat64) {
  OptimConfig config;
  ParameterStore store;
  build(store);
  const auto optimizer = make_optimizer(config, store);
  std::vector<Scalar> want;
  for (double v : test::doubles(store.values())) want.push_back({v});
  States states;
  for (int step = 0; step < kSteps; ++step) {
    take_step(*optimizer, store, states, step, kLateFrom);
    for (const Parameter& p : store.parameters()) {
      if (step == kSkipped || (p.late && step < kLateFrom)) continue;
      for (std::int64_t i = p.offset; i < p.offset + p.shape.numel(); ++i) {
        adamw(config, inputs_of(step), 0.5 * test::element(store.gradients(), i),
              p.decay == Decay::kYes, want[static_cast<std::size_t>(i)]);
      }
    }
  }
  EXPECT_EQ(states.all.updates, 5);
  EXPECT_EQ(states.late.updates, 3);
  const double tolerance = kSteps * 4 * test::unit_roundoff(DType::kFloat32);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_NEAR(test::element(store.values(), at), want[i].p, tolerance) << i;
    EXPECT_NEAR(test::element(optimizer->state()[0].second, at), want[i].m, tolerance) << i;
  }
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), test::as(store.values(), DType::kBFloat16)));
}

// Trains with one optimizer from a step on, and returns the values and the moments.
std::vector<Tensor> trained(const OptimConfig& config, int first, std::int64_t late_from,
                            ParameterStore& store) {
  build(store);
  const auto optimizer = make_optimizer(config, store);
  States states;
  for (int step = first; step < kSteps; ++step) {
    take_step(*optimizer, store, states, step, late_from);
  }
  std::vector<Tensor> all{store.values().clone(), store.bfloat16_values().clone()};
  for (const auto& [name, moments] : optimizer->state()) all.push_back(moments.clone());
  return all;
}

// Late parameters are updated as in a run that starts at their first step, and the others as
// without late parameters.
TEST(LateParameters, AreUpdatedAsInARunThatStartsLater) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    SCOPED_TRACE(row.name());
    OptimConfig config;
    config.name = row.name();
    if (row.schema.defaults) row.schema.defaults(config);
    ParameterStore store, later_store, plain_store;
    const std::vector<Tensor> got = trained(config, 0, kLateFrom, store);
    const std::vector<Tensor> later = trained(config, kLateFrom, 0, later_store);
    const std::vector<Tensor> plain = trained(config, 0, 0, plain_store);
    for (const Parameter& p : store.parameters()) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        const Tensor value = ParameterStore::view(got[i], p);
        EXPECT_TRUE(test::same_bits(value, ParameterStore::view((p.late ? later : plain)[i], p)))
            << p.name << " " << i;
      }
      const Tensor other = ParameterStore::view((p.late ? plain : later)[0], p);
      EXPECT_FALSE(test::same_bits(ParameterStore::view(got[0], p), other)) << p.name;
    }
  }
}

TEST(LateParameters, FollowOthersWithoutALateState) {
  ParameterStore store, same;
  build(store);
  build(same);
  for (Parameter& p : same.parameters()) p.late = false;
  const auto a = make_optimizer({}, store), b = make_optimizer({}, same);
  for (int step = 0; step < 3; ++step) {
    set_gradients(store, step);
    set_gradients(same, step);
    test::take_step(*a, 0.01, 1, step + 1);
    test::take_step(*b, 0.01, 1, step + 1);
  }
  EXPECT_TRUE(test::same_bits(store.values(), same.values()));
}

TEST(LateParameters, HaveRangesOfTheirOwn) {
  ParameterStore store;
  build(store);
  const std::vector<ParameterRange> ranges = parameter_ranges({}, store);
  ASSERT_EQ(ranges.size(), 5u);
  std::int64_t at = 0;
  for (const ParameterRange& range : ranges) {
    EXPECT_EQ(range.begin, at);
    at = range.end;
    EXPECT_EQ(range.tensors.size(), 1u);
    const auto p = std::ranges::find(store.parameters(), range.begin, &Parameter::offset);
    EXPECT_EQ(range.late, p->late) << p->name;
    EXPECT_EQ(range.decays, p->decay == Decay::kYes) << p->name;
  }
  EXPECT_EQ(at, store.flat_size());
}

TEST(LateParameters, StateCountsLateUpdatesOnly) {
  UpdateState state{.updates = 41, .loss = 7, .grad_norm = 5, .grad_scale = 0.25, .finite = 1};
  UpdateState late{.updates = 2};
  StepInputs inputs{0.1, 0, 9};
  const PrepareLateUpdate args{&state, &inputs, 10, 0.9, 0.95, &late};
  run(cpu_queue(), args);
  EXPECT_EQ(late.finite, 0) << "before from_step";
  EXPECT_EQ(late.updates, 2);
  inputs.step = 10;
  run(cpu_queue(), args);
  EXPECT_EQ(late.finite, 1);
  EXPECT_EQ(late.updates, 3);
  EXPECT_EQ(late.grad_scale, 0.25);
  EXPECT_EQ(late.correction1, 1 - std::pow(0.9, 3.0));
  EXPECT_EQ(late.correction2, 1 - std::pow(0.95, 3.0));
  state.finite = 0;
  run(cpu_queue(), args);
  EXPECT_EQ(late.finite, 0) << "the update is skipped";
  EXPECT_EQ(late.updates, 3);
}

}  // namespace
}  // namespace dtn
