// Muon against the paper's formulas in float64, with separate code for all products.
#include <array>

#include "dtn/core/check.h"
#include "dtn/optim/optimizer.h"
#include "take_step.h"
#include "tensors.h"

namespace dtn {
namespace {

constexpr double kLr = 0.01, kGradScale = 0.5;

// Wide, tall and square matrices of blocks, with weights for AdamW between and after them.
void build(ParameterStore& store, std::int64_t channels = 5) {
  const std::int64_t C = channels;
  store.add("patch_embed.proj.weight", {C, 3, 2, 2}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.norm1.weight", {C}, InitKind::kOnes, Decay::kNo);
  store.add("blocks.0.norm1.pos_proj.weight", {2, 3}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.attn.qkv.weight", {3 * C, C}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.0.attn.proj.weight", {C, C}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("blocks.1.mlp.fc2.weight", {C, 2 * C}, InitKind::kTruncatedNormal, Decay::kYes);
  store.add("head.weight", {7, C}, InitKind::kTruncatedNormal, Decay::kYes);
  store.allocate();
  store.initialize(1);
}

bool is_matrix(const std::string& name) {
  return name.ends_with("qkv.weight") || name.ends_with("proj.weight") ||
         name.ends_with("fc2.weight");
}
bool is_moved_by_muon(const std::string& name) {
  return is_matrix(name) && name.starts_with("blocks.") && !name.ends_with("pos_proj.weight");
}

void set_gradients(ParameterStore& store, int t) {
  std::uint32_t stream = static_cast<std::uint32_t>(100 * t);
  for (Parameter& p : store.parameters()) {
    test::assign(ParameterStore::view(store.gradients(), p),
                 test::random_tensor(p.shape, stream++));
  }
}

using Matrix = std::vector<std::vector<double>>;

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}
Matrix sum(double p, const Matrix& a, double q, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) c[i][j] = p * a[i][j] + q * b[i][j];
  }
  return c;
}

Matrix orthogonalized(Matrix x, bool quintic) {
  constexpr double kQuintic[5][3] = {{4.0848, -6.8946, 2.9270},
                                     {3.9505, -6.3029, 2.6377},
                                     {3.7418, -5.5913, 2.3037},
                                     {2.8769, -3.1427, 1.2046},
                                     {2.8366, -3.0525, 1.2012}};
  constexpr double kOriginal[3] = {3.4445, -4.7750, 2.0315};
  const bool tall = x.size() > x[0].size();
  if (tall) x = transposed(x);
  double norm = 0;
  for (const auto& row : x) {
    for (double v : row) norm += v * v;
  }
  norm = std::max(std::sqrt(norm), 1e-7);
  for (auto& row : x) {
    for (double& v : row) v /= norm;
  }
  for (int i = 0; i < 5; ++i) {
    const double* c = quintic ? kQuintic[i] : kOriginal;
    const Matrix a = product(x, transposed(x));
    x = sum(c[0], x, 1, product(sum(c[1], a, c[2], product(a, a)), x));
  }
  return tall ? transposed(x) : x;
}

struct Weight {
  double p, m = 0, v = 0;
};

class Reference {
 public:
  Reference(const OptimConfig& config, ParameterStore& store) : config_(config), store_(store) {
    for (double v : test::doubles(store.values())) weights_.push_back({v});
  }
  void step(int t) {
    for (const Parameter& p : store_.parameters()) {
      const double decay = p.decay == Decay::kYes ? config_.weight_decay : 0;
      is_moved_by_muon(p.name) ? by_muon(p, decay) : by_adamw(p, decay, t);
    }
  }
  double at(std::int64_t i) const { return weights_[static_cast<std::size_t>(i)].p; }

 private:
  double gradient(std::int64_t i) const {
    return kGradScale * test::element(store_.gradients(), i);
  }
  void by_adamw(const Parameter& p, double decay, int t) {
    const double b1 = config_.beta1, b2 = config_.beta2;
    for (std::int64_t i = p.offset; i < p.offset + p.shape.numel(); ++i) {
      Weight& w = weights_[static_cast<std::size_t>(i)];
      const double g = gradient(i);
      w.p *= 1 - kLr * decay;
      w.m = b1 * w.m + (1 - b1) * g;
      w.v = b2 * w.v + (1 - b2) * g * g;
      w.p -= kLr * w.m / (1 - std::pow(b1, t)) /
             (std::sqrt(w.v / (1 - std::pow(b2, t))) + *config_.eps);
    }
  }
  void by_muon(const Parameter& p, double decay) {
    const double mu = *config_.momentum;
    const auto rows = static_cast<std::size_t>(p.shape[0]);
    const auto cols = static_cast<std::size_t>(p.shape[1]);
    Matrix u(rows, std::vector<double>(cols));
    for (std::size_t i = 0; i < rows * cols; ++i) {
      const auto place = static_cast<std::size_t>(p.offset) + i;
      const double g = gradient(static_cast<std::int64_t>(place));
      double& m = weights_[place].m;
      m = mu * m + (1 - mu) * g;
      u[i / cols][i % cols] = config_.nesterov.value_or(true) ? (1 - mu) * g + mu * m : m;
    }
    u = orthogonalized(u, config_.ns_coefficients == NsCoefficients::kQuintic);
    const double r = static_cast<double>(rows), c = static_cast<double>(cols);
    const double scale = config_.muon_scale == MuonScale::kOriginal
                             ? std::sqrt(std::max(1.0, r / c))
                             : 0.2 * std::sqrt(std::max(r, c));
    for (std::size_t i = 0; i < rows * cols; ++i) {
      double& w = weights_[static_cast<std::size_t>(p.offset) + i].p;
      w = w * (1 - kLr * decay) - kLr * scale * u[i / cols][i % cols];
    }
  }

  const OptimConfig& config_;
  ParameterStore& store_;
  std::vector<Weight> weights_;
};

OptimConfig muon() {
  OptimConfig config;
  config.name = "muon";
  optimizer_registry().at("muon").schema.defaults(config);
  return config;
}

void compare(const OptimConfig& config) {
  ParameterStore store;
  build(store);
  store.enable_bfloat16();
  const auto optimizer = make_optimizer(config, store);
  Reference want(config, store);
  constexpr int kSteps = 10;
  for (int t = 1; t <= kSteps; ++t) {
    set_gradients(store, t);
    want.step(t);
    test::take_step(*optimizer, kLr, kGradScale, t, config.weight_decay);
  }
  // Rounding of u matters most for singular values near 0, which five steps enlarge 500 times.
  const double tolerance = kSteps * kLr * 2 * 500 * 4 * test::unit_roundoff(DType::kFloat32);
  for (const Parameter& p : store.parameters()) {
    for (std::int64_t i = p.offset; i < p.offset + p.shape.numel(); ++i) {
      EXPECT_NEAR(test::element(store.values(), i), want.at(i), tolerance) << p.name << " " << i;
    }
  }
  EXPECT_TRUE(test::same_bits(store.bfloat16_values(), test::as(store.values(), DType::kBFloat16)));
}

TEST(Muon, HasOwnDefaults) {
  const OptimConfig config = muon();
  EXPECT_EQ(config.beta1, 0.9);
  EXPECT_EQ(config.beta2, 0.95);
  EXPECT_EQ(config.eps, 1e-8);
  EXPECT_EQ(config.momentum, 0.95);
  EXPECT_EQ(config.nesterov, std::nullopt);
}

TEST(Muon, TenStepsMatchFloat64) {
  OptimConfig config = muon();
  config.weight_decay = 0.1;
  compare(config);
  config.nesterov = false;
  compare(config);
  config.ns_coefficients = NsCoefficients::kQuintic;
  compare(config);
  config.muon_scale = MuonScale::kOriginal;
  compare(config);
}

// A matrix with zero momentum stays unchanged.
TEST(Muon, ZeroGradientMakesNoStep) {
  ParameterStore store;
  build(store);
  OptimConfig config = muon();
  config.weight_decay = 0;
  const Tensor before = store.values().clone();
  store.gradients().zero();
  test::take_step(*make_optimizer(config, store), kLr, 1, 1, config.weight_decay);
  EXPECT_TRUE(test::same_bits(store.values(), before));
}

TEST(Muon, SameBitsForAnyNumberOfThreads) {
  Tensor first;
  for (int threads : test::kThreadCounts) {
    test::Threads scope(threads);
    ParameterStore store;
    build(store, 136);
    const auto optimizer = make_optimizer(muon(), store);
    for (int t = 1; t <= 2; ++t) {
      set_gradients(store, t);
      test::take_step(*optimizer, kLr, 1, t);
    }
    if (!first.defined()) first = store.values().clone();
    EXPECT_TRUE(test::same_bits(store.values(), first)) << threads << " threads";
  }
}

TEST(Muon, RejectsModelWithoutMatrices) {
  ParameterStore store;
  store.add("weight", {4, 4}, InitKind::kOnes, Decay::kYes);
  store.allocate();
  EXPECT_THROW(make_optimizer(muon(), store), ConfigError);
}

}  // namespace
}  // namespace dtn
