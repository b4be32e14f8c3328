#include "kernels/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(PrepareUpdate)
DTN_RUN_ON_EACH_ISA(AdamWStep)
DTN_RUN_ON_EACH_ISA(SgdStep)
DTN_RUN_ON_EACH_ISA(LionStep)
DTN_RUN_ON_EACH_ISA(EmaStep)
DTN_RUN_ON_EACH_ISA(SumSquares)

namespace dtn::test {
namespace {

constexpr double kEps = 0x1p-23;

using Grads = std::vector<std::vector<float>>;  // one gradient per step

Grads draw_grads(std::int64_t n, int steps) {
  Grads grads;
  for (int t = 1; t <= steps; ++t) {
    grads.push_back(normal_values<float>(n, 100u + static_cast<unsigned>(t)));
    for (std::size_t i = 0; i < grads.back().size(); i += 3) {
      grads.back()[i] *= 1e-7f;  // so small that eps matters
    }
  }
  return grads;
}

struct Buffers {
  std::vector<float> param, m, v;
  std::vector<bfloat16> copy;

  explicit Buffers(const std::vector<float>& start)
      : param(start), m(start.size()), v(start.size()), copy(start.size()) {}
  std::int64_t count() const { return static_cast<std::int64_t>(param.size()); }
  AdamWStep adamw(const Grads& grads, int t, bool with_copy = true) {
    return {count(),
            param.data(),
            m.data(),
            v.data(),
            grads[static_cast<std::size_t>(t - 1)].data(),
            with_copy ? copy.data() : nullptr,
            1e-2,
            0.9,
            0.999,
            1e-8,
            0.05,
            t,
            0.5};
  }
  SgdStep sgd(const Grads& grads, int t) {
    const float* grad = grads[static_cast<std::size_t>(t - 1)].data();
    return {count(), param.data(), m.data(), grad, copy.data(), 1e-2, 0.9, 0.05, t, 0.5};
  }
  LionStep lion(const Grads& grads, int t) {
    const float* grad = grads[static_cast<std::size_t>(t - 1)].data();
    return {count(), param.data(), m.data(), grad, copy.data(), 1e-2, 0.9, 0.99, 0.05, 0.5};
  }
};

void expect_copy(const Buffers& b) {
  for (std::size_t i = 0; i < b.param.size(); ++i) {
    ASSERT_EQ(b.copy[i].bits, bfloat16(b.param[i]).bits) << i;
  }
}

TEST(Optimizer, TenAdamWStepsMatchFloat64) {
  for (std::int64_t n : kOddCounts) {
    const Grads grads = draw_grads(n, 10);
    const Buffers start(normal_values<float>(n, 1));
    std::vector<double> p(start.param.begin(), start.param.end()), m(p.size()), v(p.size());
    for (int t = 1; t <= 10; ++t) {
      AdamWStep a = Buffers(start).adamw(grads, t);
      double correction1 = 1 - std::pow(a.beta1, t), correction2 = 1 - std::pow(a.beta2, t);
      for (std::size_t i = 0; i < p.size(); ++i) {
        double g = a.grad[i] * a.grad_scale;
        p[i] -= a.lr * a.weight_decay * p[i];
        m[i] = a.beta1 * m[i] + (1 - a.beta1) * g;
        v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
        p[i] -= a.lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + a.eps);
      }
    }
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      Buffers b = start;
      for (int t = 1; t <= 10; ++t) run_on(isa, b.adamw(grads, t));
      for (std::size_t i = 0; i < p.size(); ++i) {
        // Each step rounds p twice (half of kEps each) and an update of about lr a few times.
        ASSERT_NEAR(b.param[i], p[i], 10 * kEps * (std::abs(p[i]) + 0.15 + 4e-2)) << i;
        ASSERT_NEAR(b.v[i], v[i], 20 * kEps * v[i]) << i;
      }
      expect_copy(b);
    }
  }
}

// Five steps of AdamW(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.05) and
// SGD(lr=1e-2, momentum=0.9, weight_decay=0.05) of PyTorch 1.13 with these gradients.
const std::vector<float> kStart = {0.5f, -1.25f, 3.0f, 1e-4f, -0.02f, 7.5f, 0.0f};
std::vector<float> torch_grad(int t) {
  std::vector<float> g;
  for (int i = 0; i < 7; ++i) g.push_back(static_cast<float>((i * 5 + t * 3) % 11 - 5) * 0.125f);
  return g;
}

TEST(Optimizer, AdamWMatchesPyTorch) {
  const std::vector<float> expected = {0x1.04eabcp-1f,  -0x1.3f95f8p+0f,  0x1.822feap+1f,
                                       -0x1.e391d6p-6f, -0x1.058570p-10f, 0x1.dd887cp+2f,
                                       0x1.cce2f6p-6f};
  const std::vector<float> moment = {-0x1.8df7a8p-6f, 0x1.485b1ap-6f,  -0x1.352934p-4f,
                                     0x1.1afe1cp-4f,  -0x1.7e66f8p-9f, 0x1.254b46p-6f,
                                     -0x1.bb3d06p-5f};
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    std::vector<float> p = kStart, m(7), v(7);
    for (int t = 1; t <= 5; ++t) {
      std::vector<float> g = torch_grad(t);
      run_on(isa, AdamWStep{7, p.data(), m.data(), v.data(), g.data(), nullptr, 1e-2, 0.9, 0.95,
                            1e-8, 0.05, t, 1});
    }
    for (std::size_t i = 0; i < 7; ++i) {
      // FMA omits some roundings: five steps of half a kEps of p, and of the update.
      EXPECT_NEAR(p[i], expected[i], 2.5 * kEps * (std::abs(expected[i]) + 1e-2)) << i;
      EXPECT_NEAR(m[i], moment[i], 2.5 * kEps * 0.1) << i;
    }
  }
}

TEST(Optimizer, SgdMatchesPyTorch) {
  const std::vector<float> expected = {0x1.ffd82ap-2f,  -0x1.3c7b60p+0f, 0x1.7ffb06p+1f,
                                       -0x1.9c8076p-6f, -0x1.48d4f0p-7f, 0x1.dc4820p+2f,
                                       0x1.adfca8p-6f};
  for (Isa isa : isas()) {
    SCOPED_TRACE(name_of(isa));
    std::vector<float> p = kStart, buffer(7, std::numeric_limits<float>::quiet_NaN());
    for (int t = 1; t <= 5; ++t) {
      std::vector<float> g = torch_grad(t);
      run_on(isa, SgdStep{7, p.data(), buffer.data(), g.data(), nullptr, 1e-2, 0.9, 0.05, t, 1});
    }
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(p[i], expected[i], 2.5 * kEps * (std::abs(expected[i]) + 1e-2)) << i;
    }
  }
}

void expect_sgd_matches_float64(bool nesterov) {
  for (std::int64_t n : kOddCounts) {
    const Grads grads = draw_grads(n, 10);
    Buffers start(normal_values<float>(n, 1));
    std::fill(start.m.begin(), start.m.end(), std::numeric_limits<float>::quiet_NaN());
    std::vector<double> p(start.param.begin(), start.param.end()), buffer(p.size());
    for (int t = 1; t <= 10; ++t) {
      SgdStep s = start.sgd(grads, t);
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = s.grad[i] * s.grad_scale + s.weight_decay * p[i];
        buffer[i] = s.momentum * buffer[i] + g;
        p[i] -= s.lr * (nesterov ? g + s.momentum * buffer[i] : buffer[i]);
      }
    }
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      Buffers b = start;
      for (int t = 1; t <= 10; ++t) {
        SgdStep s = b.sgd(grads, t);
        s.nesterov = nesterov;
        run_on(isa, s);
      }
      // The buffer stays below about 5, and its update below 0.05. Nesterov's update has one more
      // gradient term and one more rounding.
      const double move = nesterov ? 0.1 : 0.05;
      for (std::size_t i = 0; i < p.size(); ++i) {
        ASSERT_NEAR(b.param[i], p[i], 10 * kEps * (std::abs(p[i]) / 2 + move)) << i;
      }
      expect_copy(b);
    }
  }
}
TEST(Optimizer, SgdMatchesFloat64) { expect_sgd_matches_float64(false); }
TEST(Optimizer, NesterovSgdMatchesFloat64) { expect_sgd_matches_float64(true); }

// Computed by hand, with g = 0.5 + 0.5 p. At p = 1: g = buf = 1, step 1.5. At p = 0.25: g = 0.625,
// buf = 1.125, step 1.1875.
TEST(Optimizer, NesterovSgdLooksAhead) {
  for (Isa isa : isas()) {
    float p = 1, buffer = std::numeric_limits<float>::quiet_NaN(), g = 0.5f;
    SgdStep s{1, &p, &buffer, &g, nullptr, 0.5, 0.5, 0.5, 1, 1};
    s.nesterov = true;
    run_on(isa, s);
    EXPECT_EQ(p, 0.25f);
    EXPECT_EQ(buffer, 1.0f);
    s.t = 2;
    run_on(isa, s);
    EXPECT_EQ(p, 0.25f - 0.5f * 1.1875f);
    EXPECT_EQ(buffer, 1.125f);
  }
}

TEST(Optimizer, SgdWithoutMomentumNeedsNoBuffer) {
  for (Isa isa : isas()) {
    std::vector<float> p = {1, 2, 3}, g = {0.5f, -0.5f, 1};
    for (int t = 1; t <= 2; ++t) {
      run_on(isa, SgdStep{3, p.data(), nullptr, g.data(), nullptr, 0.5, 0.0, 0.0, t, 1});
    }
    EXPECT_EQ(p, (std::vector<float>{0.5f, 2.5f, 2}));
  }
}

TEST(Optimizer, TenLionStepsMatchFloat64) {
  for (std::int64_t n : kOddCounts) {
    const Grads grads = draw_grads(n, 10);
    const Buffers start(normal_values<float>(n, 1));
    std::vector<double> p(start.param.begin(), start.param.end()), m(p.size());
    std::vector<bool> decided(p.size(), true);
    for (int t = 1; t <= 10; ++t) {
      LionStep a = Buffers(start).lion(grads, t);
      for (std::size_t i = 0; i < p.size(); ++i) {
        double g = a.grad[i] * a.grad_scale, old = a.beta1 * m[i], fresh = (1 - a.beta1) * g;
        // If the two terms cancel, rounding decides the sign.
        if (std::abs(old + fresh) < 1e-5 * (std::abs(old) + std::abs(fresh))) decided[i] = false;
        double sign = old + fresh > 0 ? 1 : old + fresh < 0 ? -1 : 0;
        p[i] -= a.lr * a.weight_decay * p[i];
        p[i] -= a.lr * sign;
        m[i] = a.beta2 * m[i] + (1 - a.beta2) * g;
      }
    }
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      Buffers b = start;
      for (int t = 1; t <= 10; ++t) run_on(isa, b.lion(grads, t));
      for (std::size_t i = 0; i < p.size(); ++i) {
        // m is rounded four times a step, at a size of a few hundredths.
        ASSERT_NEAR(b.m[i], m[i], 20 * kEps * 0.1) << i;
        if (decided[i]) {
          ASSERT_NEAR(b.param[i], p[i], 10 * kEps * (std::abs(p[i]) + 0.15)) << i;
        }
      }
      expect_copy(b);
    }
  }
}

TEST(Optimizer, LionStepsByLearningRateOrZero) {
  for (Isa isa : isas()) {
    std::vector<float> p = {1, 1, 1, 1, 1}, m = {0, 1, -9, 1, 0}, g = {0, -3, 1, -9, -0.0f};
    run_on(isa, LionStep{5, p.data(), m.data(), g.data(), nullptr, 0.25, 0.75, 0.5, 0});
    EXPECT_EQ(p, (std::vector<float>{1, 1, 1.25f, 1.25f, 1})) << "0.75 x 1 - 0.25 x 3 is 0";
    EXPECT_EQ(m, (std::vector<float>{0, -1, -4, -4, 0}));
  }
}

TEST(Optimizer, EmaMatchesFloat64) {
  for (Isa isa : isas()) {
    for (std::int64_t n : kOddCounts) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      std::vector<float> average = normal_values<float>(n, 1), param = normal_values<float>(n, 2);
      std::vector<float> before = average;
      const double decay = 0.99996;
      EmaStep step{n, average.data(), param.data(), n % 2 ? decay : 0};
      if (n % 2 == 0) step.device_decay = &decay;
      run_on(isa, step);
      for (std::size_t i = 0; i < average.size(); ++i) {
        double expected = 0.99996 * before[i] + (1 - 0.99996) * param[i];
        ASSERT_NEAR(average[i], expected, 1.5 * kEps * (std::abs(before[i]) + 1e-4)) << i;
      }
    }
  }
}

// The decay is 0 in the first update, then 1 - t^(-2/3), at most 0.99 (from t = 1000 on).
TEST(Optimizer, EmaWarmsUp) {
  struct Case {
    std::int64_t updates;
    double decay;
  };
  for (const Case& c : {Case{1, 0},
                        {2, 1 - std::pow(2, -2.0 / 3)},
                        {8, 0.75},
                        {27, 1 - 1.0 / 9},
                        {999, 1 - std::pow(999, -2.0 / 3)},
                        {1000, 0.99},
                        {1001, 0.99},
                        {100000000, 0.99}}) {
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), ", update ", c.updates));
      std::vector<float> average = normal_values<float>(33, 1), param = normal_values<float>(33, 2);
      const std::vector<float> before = average;
      const UpdateState state{c.updates, 0, 0, 1, 1}, left_out{c.updates, 0, 0, 1, 0};
      run_on(isa, EmaStep{33, average.data(), param.data(), 0.99, &left_out, true});
      EXPECT_TRUE(same_bits(average, before));
      run_on(isa, EmaStep{33, average.data(), param.data(), 0.99, &state, true});
      if (c.updates == 1) {
        EXPECT_EQ(average, param);
      }
      for (std::size_t i = 0; i < average.size(); ++i) {
        const double expected = c.decay * before[i] + (1 - c.decay) * param[i];
        const double size = std::abs(before[i]) + std::abs(param[i]);
        ASSERT_NEAR(average[i], expected, 1.5 * kEps * size) << i;
      }
    }
  }
}

TEST(Optimizer, SumSquaresMatchesLongDouble) {
  for (Isa isa : isas()) {
    for (std::int64_t n : kOddCounts) {
      SCOPED_TRACE(cat(name_of(isa), " n ", n));
      std::vector<float> x = normal_values<float>(n, 3);
      long double expected = 0;
      for (float v : x) expected += static_cast<long double>(v) * v;
      double result = -1, sum = static_cast<double>(expected);
      run_on(isa, SumSquares{n, x.data(), &result});
      EXPECT_NEAR(result, sum, 0x1p-52 * std::sqrt(static_cast<double>(n)) * sum);
    }
    double result = -1;
    run_on(isa, SumSquares{0, nullptr, &result});
    EXPECT_EQ(result, 0);
    std::vector<float> huge(100, 3e38f);
    run_on(isa, SumSquares{100, huge.data(), &result});
    EXPECT_NEAR(result / 9e78, 1, 1e-6) << "float64 does not overflow";
  }
}

TEST(Optimizer, SumSquaresDetectsEveryNonFiniteElement) {
  for (Isa isa : isas()) {
    for (float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(77, 0.5f);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = bad;
        double result = 0;
        run_on(isa, SumSquares{77, x.data(), &result});
        EXPECT_FALSE(std::isfinite(result)) << name_of(isa) << " at " << i;
        x[i] = 0.5f;
      }
    }
  }
}

TEST(Optimizer, SameBitsForAnyNumberOfThreads) {
  const std::int64_t n = 1000003;
  const Grads grads = draw_grads(n, 2);
  const Buffers start(normal_values<float>(n, 1));
  for (Isa isa : isas()) {
    Buffers first = start;
    double first_sum = 0;
    for (int threads : kThreadCounts) {
      SCOPED_TRACE(cat(name_of(isa), ", ", threads, " threads"));
      Threads scope(threads);
      Buffers b = start;
      run_on(isa, b.adamw(grads, 1));
      run_on(isa, b.sgd(grads, 2));
      run_on(isa, b.lion(grads, 2));
      run_on(isa, EmaStep{n, b.v.data(), b.param.data(), 0.9});
      double sum = 0;
      run_on(isa, SumSquares{n, b.v.data(), &sum});
      if (threads == 1) first = b, first_sum = sum;
      EXPECT_TRUE(same_bits(b.param, first.param));
      EXPECT_TRUE(same_bits(b.m, first.m));
      EXPECT_TRUE(same_bits(b.v, first.v));
      EXPECT_TRUE(same_bits(b.copy, first.copy));
      EXPECT_EQ(sum, first_sum);
    }
  }
}

TEST(Optimizer, PrepareUpdateMatchesFormulas) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  struct Case {
    float loss;
    double sum_squares, scale, clip, expected_scale;
    bool finite;
  };
  for (Isa isa : isas()) {
    for (Case c : {Case{6.5f, 16, 0.5, 0, 0.5, true}, Case{6.5f, 16, 0.5, 3, 0.5, true},
                   Case{6.5f, 16, 0.5, 1, 0.5 * (1 / (2 + 1e-6)), true}, Case{0, 0, 1, 1, 1, true},
                   Case{nan, 16, 1, 1, 0, false}, Case{1, inf, 1, 1, 0, false},
                   Case{1, static_cast<double>(nan), 1, 0, 0, false}}) {
      SCOPED_TRACE(cat(name_of(isa), " ", c.loss, " ", c.sum_squares, " ", c.clip));
      UpdateState state{41, -1, -1, -1, -1};
      run_on(isa, PrepareUpdate{&c.loss, &c.sum_squares, c.scale, c.clip, &state});
      EXPECT_EQ(state.finite, c.finite);
      EXPECT_EQ(state.updates, c.finite ? 42 : 41);
      if (!c.finite) continue;
      EXPECT_EQ(state.loss, c.loss * c.scale);
      EXPECT_EQ(state.grad_norm, std::sqrt(c.sum_squares) * c.scale);
      EXPECT_NEAR(state.grad_scale, c.expected_scale, 1e-15);
    }
    const float loss = 0;
    const double sum = 16;
    UpdateState state;
    run_on(isa, PrepareUpdate{&loss, &sum, 0.5, 0.25, &state, 0});
    EXPECT_EQ(state.grad_scale, 0.5 * (0.25 / 2)) << "without an epsilon";
    EXPECT_LT(state.beta1, 0) << "without betas there are no bias corrections";
    run_on(isa, PrepareUpdate{&loss, &sum, 0.5, 0.25, &state, 0, 0.9, 0.95});
    EXPECT_EQ(state.updates, 2);
    EXPECT_EQ(state.beta1, 0.9);
    EXPECT_EQ(state.beta2, 0.95);
    EXPECT_EQ(state.correction1, 1 - std::pow(0.9, 2.0));
    EXPECT_EQ(state.correction2, 1 - std::pow(0.95, 2.0));
  }
}

TEST(Optimizer, InputsInMemoryReplaceArguments) {
  const std::int64_t n = 1003;
  const Grads grads = draw_grads(n, 1);
  const Buffers start(normal_values<float>(n, 1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const StepInputs inputs{3e-3, 0.25, 9};
  const UpdateState state{7, 0, 0, 0.125, 1};
  const auto compare = [&](Isa isa, bool decays) {
    SCOPED_TRACE(cat(name_of(isa), decays ? ", decays" : ""));
    Buffers passed = start, read = start;
    auto both = [&](auto step) {
      auto args = step(passed);
      args.lr = inputs.lr * 0.5, args.grad_scale = state.grad_scale;
      args.weight_decay = decays ? inputs.weight_decay : 0;
      if constexpr (requires { args.t; }) args.t = state.updates;
      run_on(isa, args);
      args = step(read);
      args.lr = args.grad_scale = args.weight_decay = nan;
      args.lr_factor = 0.5, args.decays = decays;
      if constexpr (requires { args.t; }) args.t = 1000000;
      args.inputs = &inputs, args.state = &state;
      run_on(isa, args);
      EXPECT_TRUE(same_bits(read.param, passed.param));
      EXPECT_TRUE(same_bits(read.m, passed.m));
      EXPECT_TRUE(same_bits(read.v, passed.v));
      EXPECT_TRUE(same_bits(read.copy, passed.copy));
    };
    both([&](Buffers& b) { return b.adamw(grads, 1); });
    both([&](Buffers& b) { return b.sgd(grads, 1); });
    both([&](Buffers& b) { return b.lion(grads, 1); });
  };
  for (Isa isa : isas()) {
    for (bool decays : {true, false}) compare(isa, decays);
  }
}

TEST(Optimizer, SkippedUpdateWritesNothing) {
  const Grads grads = draw_grads(77, 1);
  const Buffers start(normal_values<float>(77, 1));
  const StepInputs inputs{3e-3, 0.25, 9};
  const UpdateState left_out{7, 0, 0, 1, 0};
  for (Isa isa : isas()) {
    Buffers b = start;
    AdamWStep adamw = b.adamw(grads, 1);
    SgdStep sgd = b.sgd(grads, 1);
    LionStep lion = b.lion(grads, 1);
    adamw.inputs = sgd.inputs = lion.inputs = &inputs;
    adamw.state = sgd.state = lion.state = &left_out;
    run_on(isa, adamw);
    run_on(isa, sgd);
    run_on(isa, lion);
    run_on(isa, EmaStep{77, b.v.data(), b.param.data(), 0.5, &left_out});
    EXPECT_TRUE(same_bits(b.param, start.param));
    EXPECT_TRUE(same_bits(b.m, start.m));
    EXPECT_TRUE(same_bits(b.v, start.v));
    EXPECT_TRUE(same_bits(b.copy, start.copy));
  }
}

TEST(Optimizer, Bfloat16CopyDoesNotChangeUpdate) {
  const Grads grads = draw_grads(1001, 1);
  for (Isa isa : isas()) {
    Buffers with(normal_values<float>(1001, 1)), without = with;
    run_on(isa, with.adamw(grads, 1));
    run_on(isa, without.adamw(grads, 1, false));
    EXPECT_TRUE(same_bits(with.param, without.param));
  }
}

}  // namespace
}  // namespace dtn::test
