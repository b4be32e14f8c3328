// PowerNorm in training against a plain implementation of its algorithm.
#include "kernels/optimizer/optimizer.h"
#include "norm_cases.h"

namespace dtn {
namespace {

using test::Doubles;

constexpr std::int64_t kChannels = 6, kGroups = 2, kBatch = 2, kTokens = 5;
constexpr std::int64_t kRows = kBatch * kTokens;
constexpr double kEps = 1e-3;

NormConfig config_of(std::int64_t warmup) {
  NormConfig config;
  config.type = "power";
  config.options = {{"groups", std::int64_t{kGroups}},
                    {"warmup", warmup},
                    {"alpha_forward", 0.8},
                    {"alpha_backward", 0.7}};
  return config;
}

// Results of a forward and backward pass.
struct Results {
  Doubles y, dx, dweight, dbias;
};

// Algorithms 1 and 2 of the paper, with the authors' warmup and group scaling, one batch at a time.
// Running values are read from `now` and updated in `next`.
struct Plain {
  struct State {
    Doubles running_phi = Doubles(kChannels, 1), ema_gz = Doubles(kChannels, 0);
    double iterations = 0;
  };
  double warmup;
  Doubles weight, bias;
  State now, next;

  static std::size_t at(std::int64_t row, std::int64_t c) {
    return static_cast<std::size_t>(row * kChannels + c);
  }

  Results run(const Doubles& x, const Doubles& dy) {
    constexpr std::int64_t kWidth = kChannels / kGroups;
    Results r{Doubles(x.size()), Doubles(x.size()), Doubles(kChannels), Doubles(kChannels)};
    Doubles s(x.size()), z(x.size()), d(x.size());
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        double squares = 0;
        for (std::int64_t k = 0; k < kWidth; ++k) {
          squares += std::pow(x[at(row, c / kWidth * kWidth + k)], 2) / kWidth;
        }
        s[at(row, c)] = 1 / std::sqrt(squares + kEps);
      }
    }
    const double iteration = now.iterations + 1;
    for (std::size_t c = 0; c < kChannels; ++c) {
      auto each_row = [&](auto&& f) {
        for (std::int64_t row = 0; row < kRows; ++row) f(at(row, static_cast<std::int64_t>(c)));
      };
      double phi = 0;
      each_row([&](std::size_t i) { phi += std::pow(x[i] * s[i], 2) / kRows; });
      const double psi = std::sqrt((iteration <= warmup ? phi : now.running_phi[c]) + kEps);
      each_row([&](std::size_t i) {
        z[i] = x[i] * s[i] / psi;
        r.y[i] = weight[c] * z[i] + bias[c];
        r.dweight[c] += dy[i] * z[i];
        r.dbias[c] += dy[i];
      });
      double& running = next.running_phi[c];
      if (iteration < warmup) running = running * (iteration - 1) / iteration + phi / iteration;
      running = 0.8 * running + 0.2 * phi;

      const double nu = 0.3 * now.ema_gz[c], nu_here = 0.3 * next.ema_gz[c];
      each_row([&](std::size_t i) {
        const double g = dy[i] * weight[c];
        d[i] = (g - nu * z[i]) / psi;
        next.ema_gz[c] += (g - nu_here * z[i]) * z[i] / kRows;
      });
    }
    next.iterations = iteration;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        // The derivative of channel k of z0 by channel c of x, within a group.
        for (std::int64_t k = c / kWidth * kWidth; k < (c / kWidth + 1) * kWidth; ++k) {
          const double f = s[at(row, c)];
          r.dx[at(row, c)] += d[at(row, k)] * ((k == c ? f : 0) -
                                               x[at(row, k)] * x[at(row, c)] * f * f * f / kWidth);
        }
      }
    }
    return r;
  }
};

struct Trained {
  std::unique_ptr<test::BuiltNorm> built;
  explicit Trained(std::int64_t warmup)
      : built(test::build_norm(config_of(warmup), {kChannels, 3, kEps}, DType::kFloat64)) {
    built->store.initialize(1);  // initial buffers
    for (Parameter& p : built->store.parameters()) {
      Tensor value = p.variable.value();
      value.copy_from(test::random_tensor({kChannels}, p.name == "norm.weight" ? 8 : 9, 1, 0.5));
    }
  }

  Results run(const Tensor& x, const Tensor& dy, bool again = false) {
    built->store.zero_gradients();
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    ctx.mode.training = true;
    auto forward = [&](Context& c, const Variable& v) {
      return built->norm->forward(c, v, {1, kTokens});
    };
    Variable input(x, true);
    Variable y = again ? checkpoint(ctx, input, forward) : forward(ctx, input);
    tape.backward(y, dy);
    return {test::doubles(y.value()), test::doubles(input.grad()), gradient("norm.weight"),
            gradient("norm.bias")};
  }
  Doubles gradient(const char* name) {
    return test::doubles(built->store.find(name)->variable.grad());
  }
  Doubles buffer(const std::string& name) {
    for (const Buffer& b : built->store.buffers()) {
      if (b.name == "norm." + name) return test::doubles(b.value);
    }
    throw Error(cat("no buffer ", name));
  }
};

void expect_near(const Doubles& got, const Doubles& want) {
  EXPECT_LE(test::max_abs_difference(got, want), 1e-12 * (1 + test::max_abs(want)));
}

Tensor tokens(std::uint32_t stream) {
  return test::random_tensor({kBatch, kTokens, kChannels}, stream, 2, 0.3);
}

// Steps of one, two and three micro-batches, during the warmup and after it.
TEST(PowerNormTraining, MatchesPaperAlgorithm) {
  for (std::int64_t warmup : {0, 1, 4}) {
    for (bool again : {false, true}) {
      Trained trained(warmup);
      Plain plain{static_cast<double>(warmup),
                  test::doubles(trained.built->store.find("norm.weight")->variable.value()),
                  test::doubles(trained.built->store.find("norm.bias")->variable.value()),
                  {},
                  {}};
      std::uint32_t stream = 100;
      for (int step = 0; step < 8; ++step) {
        for (int micro = 0; micro <= step % 3; ++micro) {
          SCOPED_TRACE(cat("warmup ", warmup, ", step ", step, ", micro-batch ", micro,
                           again ? ", recomputed" : ""));
          Tensor x = tokens(stream++), dy = tokens(stream++);
          const Results got = trained.run(x, dy, again);
          const Results want = plain.run(test::doubles(x), test::doubles(dy));
          expect_near(got.y, want.y);
          expect_near(got.dx, want.dx);
          expect_near(got.dweight, want.dweight);
          expect_near(got.dbias, want.dbias);
        }
        trained.built->store.commit_buffers();
        plain.now = plain.next;
        expect_near(trained.buffer("running_phi"), plain.now.running_phi);
        expect_near(trained.buffer("ema_gz"), plain.now.ema_gz);
        EXPECT_EQ(trained.buffer("iters"), Doubles{step + 1.0});
      }
    }
  }
}

// A step with a loss that is not finite leaves the next step unchanged.
TEST(PowerNormTraining, SkippedStepLeavesNoTrace) {
  Trained straight(2), troubled(2);
  UpdateState carried_out, left_out;
  carried_out.finite = 1;
  for (std::uint32_t step = 0; step < 5; ++step) {
    Tensor bad = tokens(200 + step);
    bad.data<double>()[7] = NAN;
    troubled.run(bad, tokens(300 + step));
    troubled.built->store.commit_buffers(&left_out);
    Results want, got;
    for (Trained* t : {&straight, &troubled}) {
      (t == &straight ? want : got) = t->run(tokens(400 + step), tokens(500 + step));
      t->built->store.commit_buffers(&carried_out);
    }
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_TRUE(test::same_bits(troubled.built->store.values(), straight.built->store.values()));
  }
}

TEST(PowerNormTraining, EvaluationUsesRunningValueAndChangesNothing) {
  Trained trained(1);
  for (std::uint32_t step = 0; step < 3; ++step) {
    trained.run(tokens(1 + step), tokens(11 + step));
    trained.built->store.commit_buffers();
  }
  Tensor before = trained.built->store.values().clone();
  Tensor x = tokens(20);
  Context ctx;
  Variable y = trained.built->norm->forward(ctx, Variable(x), {1, kTokens});
  // The result of a sample does not depend on the other samples.
  Variable part = trained.built->norm->forward(ctx, Variable(x.slice(0, 1)), {1, kTokens});
  EXPECT_TRUE(test::same_bits(part.value(), y.value().slice(0, 1)));
  trained.built->store.commit_buffers();
  EXPECT_TRUE(test::same_bits(trained.built->store.values(), before));
  Variable reference = trained.built->norm->reference(ctx, Variable(x), {1, kTokens});
  expect_near(test::doubles(y.value()), test::doubles(reference.value()));
}

// The names and shapes are those of the release, and the number of groups must fit.
TEST(PowerNormParameters, MatchRelease) {
  ParameterStore store;
  make_normalizer(config_of(3000), {kChannels, 3, kEps}, {store, "norm"});
  const std::pair<const char*, Shape> want[] = {{"norm.running_phi", {1, kChannels, 1, 1}},
                                                {"norm.ema_gz", {1, kChannels, 1, 1}},
                                                {"norm.iters", {1}}};
  ASSERT_EQ(store.buffers().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(store.buffers()[i].name, want[i].first);
    EXPECT_EQ(store.buffers()[i].shape, want[i].second);
  }
  for (double groups : {4.0, 1.5, 0.0, 12.0}) {
    NormConfig bad = config_of(3000);
    bad.options[0].value = groups;
    ParameterStore other;
    EXPECT_THROW(make_normalizer(bad, {kChannels, 3, kEps}, {other, "norm"}), ConfigError)
        << groups;
  }
}

}  // namespace
}  // namespace dtn
