#include "dtn/optim/optimizer.h"

#include "take_step.h"
#include "tensors.h"

namespace dtn {
namespace {

constexpr int kSteps = 10;
constexpr double kLr = 0.01, kGradScale = 0.5;

void build(ParameterStore& store) {
  store.add("blocks.0.mlp.fc1.weight", {7, 5}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("bias", {19}, InitKind::kZeros, Decay::kNo);
  store.allocate();
  store.values().zero();
  for (Parameter& p : store.parameters()) {
    test::assign(p.variable.value(), test::random_tensor(p.shape, 1));
  }
}

// Sets the gradients of step t; their size is 1e-3 to 1.
void set_gradients(ParameterStore& store, int t) {
  for (Parameter& p : store.parameters()) {
    auto stream = static_cast<std::uint32_t>(10 * t) + (p.decay == Decay::kYes);
    test::assign(ParameterStore::view(store.gradients(), p), test::random_tensor(p.shape, stream));
  }
}

struct Scalar {
  double p, m = 0, v = 0;
};

// Runs the optimizer next to a loop in double. The weight decay changes from step to step.
void compare(const OptimConfig& config,
             const std::function<void(Scalar&, double g, double decay, int t)>& update) {
  ParameterStore store;
  build(store);
  store.enable_bfloat16();
  const auto optimizer = make_optimizer(config, store);
  std::vector<Scalar> want;
  for (double v : test::doubles(store.values())) want.push_back({v});
  for (int t = 1; t <= kSteps; ++t) {
    const double weight_decay = config.weight_decay * t;
    set_gradients(store, t);
    for (std::size_t i = 0; i < want.size(); ++i) {
      double g = kGradScale * test::element(store.gradients(), static_cast<std::int64_t>(i));
      bool decays = static_cast<std::int64_t>(i) < store.decay_end();
      update(want[i], g, decays ? weight_decay : 0, t);
    }
    test::take_step(*optimizer, kLr, kGradScale, t, weight_decay);
  }
  // A few roundings per step, for numbers of at most 1.
  double tolerance = kSteps * 4 * test::unit_roundoff(DType::kFloat32);
  for (std::size_t i = 0; i < want.size(); ++i) {
    auto at = static_cast<std::int64_t>(i);
    EXPECT_NEAR(test::element(store.values(), at), want[i].p, tolerance) << i;
  }
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), test::as(store.values(), DType::kBFloat16)));
  // Padding, 35 to 48 and 67 to 80, stays zero for any update.
  for (std::int64_t i : {35, 47, 67, 79}) EXPECT_EQ(test::element(store.values(), i), 0);
  for (const auto& [name, state] : optimizer->state()) {
    EXPECT_EQ(state.numel(), store.flat_size()) << name;
    for (std::int64_t i : {35, 79}) EXPECT_EQ(test::element(state, i), 0) << name;
  }
}

TEST(Optimizer, AdamWMatchesFormula) {
  OptimConfig config;
  config.weight_decay = 0.1;
  config.beta2 = 0.95;
  compare(config, [&](Scalar& s, double g, double decay, int t) {
    s.p -= kLr * decay * s.p;
    s.m = config.beta1 * s.m + (1 - config.beta1) * g;
    s.v = config.beta2 * s.v + (1 - config.beta2) * g * g;
    double m = s.m / (1 - std::pow(config.beta1, t)), v = s.v / (1 - std::pow(config.beta2, t));
    s.p -= kLr * m / (std::sqrt(v) + *config.eps);
  });
}

TEST(Optimizer, SgdMatchesFormula) {
  for (auto [momentum, nesterov] : {std::pair{0.0, false}, {0.9, false}, {0.9, true}}) {
    OptimConfig config;
    config.name = "sgd";
    config.weight_decay = 0.1;
    config.momentum = momentum;
    config.nesterov = nesterov;
    compare(config, [mu = momentum, ahead = nesterov](Scalar& s, double g, double decay, int) {
      g += decay * s.p;
      s.m = mu * s.m + g;
      s.p -= kLr * (ahead ? g + mu * s.m : s.m);
    });
  }
}

TEST(Optimizer, LionMatchesFormula) {
  OptimConfig config;
  config.name = "lion";
  config.weight_decay = 0.1;
  config.beta2 = 0.99;
  compare(config, [&](Scalar& s, double g, double decay, int) {
    const double direction = config.beta1 * s.m + (1 - config.beta1) * g;
    s.p *= 1 - kLr * decay;
    s.p -= kLr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    s.m = config.beta2 * s.m + (1 - config.beta2) * g;
  });
}

// The norms are per tensor. The bias has no weight decay and no ratio.
TEST(Optimizer, LambMatchesFormula) {
  OptimConfig config;
  config.name = "lamb";
  config.weight_decay = 0.1;
  config.eps = 1e-6;
  ParameterStore store;
  store.add("a", {90, 101}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("b", {7}, InitKind::kOnes, Decay::kYes);
  store.add("bias", {19}, InitKind::kOnes, Decay::kNo);
  store.allocate();
  store.initialize(1);
  store.enable_bfloat16();
  const auto optimizer = make_optimizer(config, store);
  std::vector<Scalar> want;
  for (double v : test::doubles(store.values())) want.push_back({v});
  for (int t = 1; t <= kSteps; ++t) {
    set_gradients(store, t);
    const double weight_decay = config.weight_decay * t;
    for (const Parameter& p : store.parameters()) {
      const double decay = p.decay == Decay::kYes ? weight_decay : 0;
      double weights = 0, moves = 0;
      test::Doubles u;
      for (std::int64_t i = p.offset; i < p.offset + p.shape.numel(); ++i) {
        Scalar& s = want[static_cast<std::size_t>(i)];
        const double g = kGradScale * test::element(store.gradients(), i);
        s.m = config.beta1 * s.m + (1 - config.beta1) * g;
        s.v = config.beta2 * s.v + (1 - config.beta2) * g * g;
        const double m = s.m / (1 - std::pow(config.beta1, t));
        const double v = s.v / (1 - std::pow(config.beta2, t));
        u.push_back(m / (std::sqrt(v) + *config.eps) + decay * s.p);
        weights += s.p * s.p;
        moves += u.back() * u.back();
      }
      const double ratio = decay != 0 ? std::sqrt(weights) / std::sqrt(moves) : 1;
      std::size_t i = static_cast<std::size_t>(p.offset);
      for (double move : u) want[i++].p -= kLr * ratio * move;
    }
    test::take_step(*optimizer, kLr, kGradScale, t, weight_decay);
  }
  const double tolerance = kSteps * 4 * test::unit_roundoff(DType::kFloat32);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(test::element(store.values(), static_cast<std::int64_t>(i)), want[i].p, tolerance);
  }
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), test::as(store.values(), DType::kBFloat16)));
  EXPECT_EQ(optimizer->clip_epsilon(), 0);
}

TEST(Optimizer, ContinuesFromState) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    OptimConfig config;
    config.name = row.name();
    ParameterStore unbroken, resumed;
    build(unbroken);
    build(resumed);
    const auto whole = make_optimizer(config, unbroken), first = make_optimizer(config, resumed);
    for (int t = 1; t <= 6; ++t) {
      set_gradients(unbroken, t);
      test::take_step(*whole, kLr, 1, t);
    }
    for (int t = 1; t <= 3; ++t) {
      set_gradients(resumed, t);
      test::take_step(*first, kLr, 1, t);
    }
    const auto second = make_optimizer(config, resumed);
    auto from = first->state(), to = second->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].first, to[i].first);
      to[i].second.copy_from(from[i].second);
    }
    for (int t = 4; t <= 6; ++t) {
      set_gradients(resumed, t);
      test::take_step(*second, kLr, 1, t);
    }
    EXPECT_TRUE(test::same_bits(unbroken.values(), resumed.values()));
  }
}

TEST(Optimizer, StateNamesMatchPyTorch) {
  ParameterStore store;
  build(store);
  OptimConfig config;
  auto adamw = make_optimizer(config, store)->state();
  ASSERT_EQ(adamw.size(), 2u);
  EXPECT_EQ(adamw[0].first, "exp_avg");
  EXPECT_EQ(adamw[1].first, "exp_avg_sq");
  config.name = "sgd";
  auto sgd = make_optimizer(config, store)->state();
  ASSERT_EQ(sgd.size(), 1u);
  EXPECT_EQ(sgd[0].first, "momentum_buffer");
  config.name = "lion";
  auto lion = make_optimizer(config, store)->state();
  ASSERT_EQ(lion.size(), 1u);
  EXPECT_EQ(lion[0].first, "exp_avg");
  config.name = "lamb";
  EXPECT_EQ(make_optimizer(config, store)->state()[1].first, "exp_avg_sq");
  config.name = "muon";
  EXPECT_EQ(make_optimizer(config, store)->state()[1].first, "exp_avg_sq");
}

TEST(Optimizer, DoesNotDependOnThreads) {
  Tensor first;
  for (int threads : test::kThreadCounts) {
    test::Threads scope(threads);
    ParameterStore store;
    store.add("weight", {300, 1001}, InitKind::kTruncatedNormal, Decay::kYes);
    store.allocate();
    store.initialize(1);
    store.gradients().copy_from(store.values());
    const auto optimizer = make_optimizer({}, store);
    double sum = 0;
    run(cpu_queue(), SumSquares{store.flat_size(), store.gradients().data<float>(), &sum});
    test::take_step(*optimizer, kLr, 1 / std::sqrt(sum), 1);
    if (!first.defined()) first = store.values().clone();
    EXPECT_TRUE(test::same_bits(store.values(), first)) << threads << " threads";
  }
}

// Against an optimizer that makes only the updates that are finite.
TEST(Optimizer, SkipsAnUpdateThatIsNotFinite) {
  for (const OptimizerEntry& row : optimizer_registry()) {
    OptimConfig config;
    config.name = row.name();
    ParameterStore finite, all;
    build(finite);
    build(all);
    const auto a = make_optimizer(config, finite), b = make_optimizer(config, all);
    StepInputs inputs{0, config.weight_decay, 0};
    UpdateState state;
    for (int t = 1; t <= 4; ++t) {
      set_gradients(finite, t);
      set_gradients(all, t);
      double sum = 0;
      run(cpu_queue(), SumSquares{all.flat_size(), all.gradients().data<float>(), &sum});
      float loss = t == 3 ? NAN : 2.0f;
      inputs.lr = kLr * t;
      run(cpu_queue(), PrepareUpdate{&loss, &sum, 0.5, 1.0, &state});
      EXPECT_EQ(state.finite, t != 3);
      EXPECT_EQ(state.grad_norm, std::sqrt(sum) * 0.5);
      EXPECT_EQ(state.grad_scale, 0.5 / (state.grad_norm + 1e-6));  // clipped to 1
      b->step(&inputs, &state);
      if (t != 3) test::take_step(*a, kLr * t, state.grad_scale, state.updates);
      EXPECT_TRUE(test::same_bits(finite.values(), all.values())) << t;
    }
    EXPECT_EQ(state.updates, 3);
  }
}

TEST(MovingAverage, MatchesFormulaAndSwaps) {
  ParameterStore store;
  build(store);
  store.enable_bfloat16();
  MovingAverage average(store, 0.75);
  const UpdateState state = test::update_state(1);
  EXPECT_TRUE(test::same_bits(average.values(), store.values())) << "starts at the weights";
  test::Doubles want = test::doubles(store.values());
  for (int t = 0; t < 5; ++t) {
    for (Parameter& p : store.parameters()) {
      auto stream = static_cast<std::uint32_t>(50 + t);
      test::assign(p.variable.value(), test::random_tensor(p.shape, stream));
    }
    store.refresh_bfloat16();
    average.update(&state);
    test::Doubles now = test::doubles(store.values());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = 0.75 * want[i] + 0.25 * now[i];
  }
  EXPECT_LE(test::max_abs_difference(test::doubles(average.values()), want),
            5 * 3 * test::unit_roundoff(DType::kFloat32));

  Tensor weights = store.values().clone(), averaged = average.values().clone();
  Tensor low = store.bfloat16_values().clone();
  average.swap();
  EXPECT_TRUE(test::same_bits(store.values(), averaged));
  EXPECT_TRUE(test::same_bits(average.values(), weights));
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), test::as(averaged, DType::kBFloat16)));
  average.swap();
  EXPECT_TRUE(test::same_bits(store.values(), weights));
  EXPECT_TRUE(test::same_bits(average.values(), averaged));
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), low));
}

TEST(MovingAverage, WarmsUpByNumberOfUpdates) {
  ParameterStore store;
  build(store);
  MovingAverage average(store, 0.7, true);
  test::Doubles want = test::doubles(store.values());
  UpdateState state;
  for (int t = 1; t <= 8; ++t) {
    for (Parameter& p : store.parameters()) {
      auto stream = static_cast<std::uint32_t>(50 + t);
      test::assign(p.variable.value(), test::random_tensor(p.shape, stream));
    }
    state.finite = t != 4;
    state.updates += state.finite;
    average.update(&state);
    if (t == 4) continue;
    const double s = static_cast<double>(state.updates - 1);
    const double decay = s <= 0 ? 0 : std::min(0.7, 1 - std::pow(1 + s, -2.0 / 3));
    const test::Doubles now = test::doubles(store.values());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = decay * want[i] + (1 - decay) * now[i];
    if (t == 1) {
      EXPECT_TRUE(test::same_bits(average.values(), store.values()));
    }
  }
  EXPECT_EQ(state.updates, 7);  // 1 - 7^(-2/3) is 0.727, so the last decay is 0.7
  EXPECT_LE(test::max_abs_difference(test::doubles(average.values()), want),
            8 * 3 * test::unit_roundoff(DType::kFloat32));
}

// Running statistics are averaged like the weights, as in timm.
TEST(MovingAverage, CoversBuffers) {
  ParameterStore store;
  store.add("w", {3}, InitKind::kOnes, Decay::kNo);
  Buffer* b = store.add_buffer("mean", {2}, InitKind::kZeros);
  store.allocate();
  store.initialize(0);
  MovingAverage average(store, 0.75);
  b->next.copy_from(Tensor::full({2}, DType::kFloat32, 8));
  store.commit_buffers();
  const UpdateState state = test::update_state(1);
  average.update(&state);
  EXPECT_EQ(test::doubles(ParameterStore::view(average.values(), *b)), (test::Doubles{2, 2}));
  average.swap();
  EXPECT_EQ(test::doubles(b->value), (test::Doubles{2, 2}));
  EXPECT_EQ(test::doubles(b->next), (test::Doubles{8, 8})) << "training goes on where it was";
}

// Steps by the sign of the gradient, and counts the steps of each parameter.
class SignDescent : public Optimizer {
 public:
  SignDescent(const OptimConfig& config, ParameterStore& store)
      : Optimizer(config, store, {"count"}) {}

 private:
  void update(const OptimizerUpdate& u) override {
    Tensor values = u.values, count = u.state[0];
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const float g = u.gradients.data<float>()[i] * static_cast<float>(u.grad_scale);
      values.data<float>()[i] -= static_cast<float>(u.lr) * (g > 0 ? 1 : g < 0 ? -1 : 0);
      count.data<float>()[i] = static_cast<float>(u.updates);
    }
  }
};

TEST(Optimizer, ProgramsCanAddOptimizers) {
  OptimizerRegistry mine = optimizer_registry();
  mine.add({{"sign", "signs alone"}, [](const OptimConfig& config, ParameterStore& store) {
              return std::make_unique<SignDescent>(config, store);
            }});
  EXPECT_THROW(mine.add({{"sign", "again"}, nullptr}), Error);
  ParameterStore store;
  build(store);
  const Tensor before = store.values().clone();
  OptimConfig config;
  config.name = "sign";
  EXPECT_THROW(make_optimizer(config, store), ConfigError) << "ours know nothing of it";
  const auto optimizer = make_optimizer(config, store, mine);
  set_gradients(store, 1);
  StepInputs inputs{0.25, 0, 0};
  UpdateState state;
  state.grad_scale = -1;
  optimizer->step(&inputs, &state);  // skipped
  EXPECT_TRUE(test::same_bits(store.values(), before));
  state.finite = 1;
  state.updates = 1;
  optimizer->step(&inputs, &state);
  for (std::int64_t i = 0; i < 35; ++i) {
    const double g = test::element(store.gradients(), i);
    EXPECT_EQ(store.values().data<float>()[i], before.data<float>()[i] + (g > 0 ? 0.25f : -0.25f));
  }
  EXPECT_EQ(optimizer->state()[0].second.data<float>()[3], 1);
}

}  // namespace
}  // namespace dtn
