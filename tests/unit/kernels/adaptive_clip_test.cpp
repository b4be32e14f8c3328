#include "kernels/optimizer/adaptive_clip.h"

#include <gtest/gtest.h>

#include <limits>

#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(AdaptiveClip)

namespace dtn::test {
namespace {

constexpr double kEps = 0x1p-23;

// Units of various lengths with gaps between them. Their gradients are large, small or zero.
struct Problem {
  std::vector<GradientUnit> units;
  std::vector<float> param, grad;

  Problem() {
    std::int64_t at = 0;
    for (std::int64_t size : {1, 3, 16, 17, 192, 1000, 70001}) {
      for (int kind = 0; kind < 3; ++kind) {
        units.push_back({at, at + size});
        at += size + 5;
      }
    }
    param = normal_values<float>(at, 1);
    grad = normal_values<float>(at, 2);
    for (std::size_t u = 0; u < units.size(); ++u) {
      const float scale = u % 3 == 0 ? 1.0f : u % 3 == 1 ? 1e-3f : 0.0f;
      for (std::int64_t i = units[u].begin; i < units[u].end; ++i) grad[index(i)] *= scale;
    }
    // A unit of zero weights has the minimum norm.
    for (std::int64_t i = units[3].begin; i < units[3].end; ++i) param[index(i)] = 0;
  }
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  AdaptiveClip args() {
    return {grad.data(),  param.data(), static_cast<std::int64_t>(units.size()),
            units.data(), 0.02,         0.5};
  }
  // The formulas in float64. Elements outside of all units stay unchanged.
  std::vector<double> clipped() const {
    std::vector<double> g(grad.begin(), grad.end());
    for (const GradientUnit& u : units) {
      double w2 = 0, g2 = 0;
      for (std::int64_t i = u.begin; i < u.end; ++i) {
        w2 += static_cast<double>(param[index(i)]) * param[index(i)];
        g2 += g[index(i)] * g[index(i)];
      }
      const double largest = 0.02 * std::max(std::sqrt(w2), 1e-3), norm = 0.5 * std::sqrt(g2);
      if (norm < largest) continue;
      for (std::int64_t i = u.begin; i < u.end; ++i) g[index(i)] *= largest / std::max(norm, 1e-6);
    }
    return g;
  }
};

TEST(AdaptiveClip, MatchesFloat64) {
  for (Isa isa : isas()) {
    Problem p;
    const std::vector<float> before = p.grad;
    const std::vector<double> want = p.clipped();
    run_on(isa, p.args());
    std::size_t changed = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(p.grad[i], want[i], 2 * kEps * std::abs(want[i])) << name_of(isa) << " " << i;
      changed += p.grad[i] != before[i];
    }
    EXPECT_GT(changed, want.size() / 4);
    EXPECT_LT(changed, want.size() / 2);
  }
}

TEST(AdaptiveClip, PropagatesNonFiniteValues) {
  for (Isa isa : isas()) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Problem p;
      const std::vector<double> want = p.clipped();
      p.grad[Problem::index(p.units[9].begin + 2)] = bad;
      run_on(isa, p.args());
      bool finite = true;
      for (std::int64_t i = p.units[9].begin; i < p.units[9].end; ++i) {
        finite = finite && std::isfinite(p.grad[Problem::index(i)]);
      }
      EXPECT_FALSE(finite) << name_of(isa);
      const std::size_t other = Problem::index(p.units[12].begin);
      EXPECT_NEAR(p.grad[other], want[other], 2 * kEps);
    }
  }
}

TEST(AdaptiveClip, SameBitsForAnyNumberOfThreads) {
  for (Isa isa : isas()) {
    std::vector<float> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      Problem p;
      run_on(isa, p.args());
      if (first.empty()) first = p.grad;
      EXPECT_TRUE(same_bits(p.grad, first)) << name_of(isa) << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace dtn::test
