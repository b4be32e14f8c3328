// Clipping of gradients by units and by tensors.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/optimizer/adaptive_clip.h"
#include "kernels/optimizer/parameter_clip.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(AdaptiveClip)
DTN_RUN_ON_EACH_ISA(ParameterClip)

namespace dtn::test {
namespace {

constexpr double kEps = 0x1p-23;
constexpr double kClip = 3, kScale = 0.5;  // of ParameterClip

// Compares the clipped gradients of a problem with those in float64.
template <class Problem>
void expect_matches_float64() {
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

template <class Problem>
void expect_same_bits_for_any_threads() {
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

// Units of various lengths with gaps between them. Their gradients are large, small or zero.
struct UnitProblem {
  std::vector<GradientUnit> units;
  std::vector<float> param, grad;

  UnitProblem() {
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

TEST(AdaptiveClip, MatchesFloat64) { expect_matches_float64<UnitProblem>(); }

TEST(AdaptiveClip, PropagatesNonFiniteValues) {
  for (Isa isa : isas()) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      UnitProblem p;
      const std::vector<double> want = p.clipped();
      p.grad[UnitProblem::index(p.units[9].begin + 2)] = bad;
      run_on(isa, p.args());
      bool finite = true;
      for (std::int64_t i = p.units[9].begin; i < p.units[9].end; ++i) {
        finite = finite && std::isfinite(p.grad[UnitProblem::index(i)]);
      }
      EXPECT_FALSE(finite) << name_of(isa);
      const std::size_t other = UnitProblem::index(p.units[12].begin);
      EXPECT_NEAR(p.grad[other], want[other], 2 * kEps);
    }
  }
}

TEST(AdaptiveClip, SameBitsForAnyNumberOfThreads) {
  expect_same_bits_for_any_threads<UnitProblem>();
}

// Tensors of various lengths with gaps between them. Of each length, the gradient of one tensor is
// above the limit, one below it, and one zero.
struct TensorProblem {
  std::vector<std::int64_t> begins, ends;
  std::vector<TensorChunk> chunks;
  std::vector<std::int64_t> first_chunk{0};
  std::vector<float> grad;

  TensorProblem() {
    std::int64_t at = 0;
    for (std::int64_t size :
         std::initializer_list<std::int64_t>{1, 3, 16, 17, kTensorChunk, 3 * kTensorChunk + 77}) {
      for (int kind = 0; kind < 3; ++kind) {
        add_tensor(at, size);
        at += (size + 127) / 128 * 128;
      }
    }
    grad = normal_values<float>(at, 1);
    for (std::size_t t = 0; t < begins.size(); ++t) {
      const float scale = t % 3 == 0 ? 100.0f : t % 3 == 1 ? 1e-3f : 0.0f;
      for (std::int64_t i = begins[t]; i < ends[t]; ++i) grad[index(i)] *= scale;
    }
  }
  void add_tensor(std::int64_t begin, std::int64_t size) {
    const auto tensor = static_cast<std::int64_t>(begins.size());
    begins.push_back(begin);
    ends.push_back(begin + size);
    for (std::int64_t i = begin; i < begin + size; i += kTensorChunk) {
      chunks.push_back({i, std::min(i + kTensorChunk, begin + size), tensor});
    }
    first_chunk.push_back(static_cast<std::int64_t>(chunks.size()));
  }
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  ParameterClip args() {
    return {grad.data(),
            {static_cast<std::int64_t>(chunks.size()), static_cast<std::int64_t>(begins.size()),
             chunks.data(), first_chunk.data()},
            kClip,
            kScale};
  }
  // The formulas in float64. Elements between the tensors stay unchanged.
  std::vector<double> clipped() const {
    std::vector<double> g(grad.begin(), grad.end());
    for (std::size_t t = 0; t < begins.size(); ++t) {
      double sum = 0;
      for (std::int64_t i = begins[t]; i < ends[t]; ++i) sum += g[index(i)] * g[index(i)];
      const double factor = kClip / (kScale * std::sqrt(sum) + 1e-6);
      if (factor >= 1) continue;
      for (std::int64_t i = begins[t]; i < ends[t]; ++i) g[index(i)] *= factor;
    }
    return g;
  }
};

TEST(ParameterClip, MatchesFloat64) { expect_matches_float64<TensorProblem>(); }

TEST(ParameterClip, PropagatesNonFiniteValues) {
  for (Isa isa : isas()) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      TensorProblem p;
      const std::vector<double> want = p.clipped();
      const std::size_t at = TensorProblem::index(p.begins[9] + 2);
      p.grad[at] = bad;
      run_on(isa, p.args());
      EXPECT_FALSE(std::isfinite(p.grad[at])) << name_of(isa);
      const std::size_t other = TensorProblem::index(p.begins[12]);
      EXPECT_NEAR(p.grad[other], want[other], 2 * kEps * std::abs(want[other]));
    }
  }
}

TEST(ParameterClip, SameBitsForAnyNumberOfThreads) {
  expect_same_bits_for_any_threads<TensorProblem>();
}

TEST(ParameterClip, TakesNoTensors) {
  const std::int64_t first_chunk = 0;
  for (Isa isa : isas()) run_on(isa, ParameterClip{nullptr, {0, 0, nullptr, &first_chunk}, 1});
}

}  // namespace
}  // namespace dtn::test
