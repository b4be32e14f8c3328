#include "kernels/loss/focal_loss.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(FocalLossForward)
DTN_RUN_ON_EACH_ISA(FocalLossBackward)

namespace dtn::test {
namespace {

// Logits of one level of B images, whose labels are a slice of those of all levels.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  std::int64_t batch, anchors, classes, first = 3, stride;
  std::vector<T> logits;             // [B, n, K]
  std::vector<std::int64_t> labels;  // [B, N]
  double alpha = 0.25, gamma = 2;
  A scale = A(0.25), upstream = A(-0.75);

  Problem(std::int64_t b, std::int64_t n, std::int64_t k, double std = 2)
      : batch(b),
        anchors(n),
        classes(k),
        stride(n + 5),
        logits(normal_values<T>(b * n * k, 1, 0, std)) {
    labels.assign(static_cast<std::size_t>(b * stride), 1000000);  // other levels: no class
    for (std::int64_t i = 0; i < b * n; ++i) {
      label(i) = i % 3 == 1 ? -1 : i % 7 == 2 ? -2 : i % k;
    }
  }
  std::int64_t& label(std::int64_t row) {
    return labels[static_cast<std::size_t>(row / anchors * stride + first + row % anchors)];
  }
  std::int64_t label(std::int64_t row) const { return const_cast<Problem*>(this)->label(row); }

  struct Result {
    A loss;
    std::vector<T> dlogits;
  };
  Result run_both(Isa isa) const {
    Result r{A(0), std::vector<T>(logits.size())};
    const FocalLossInputs inputs{{batch, anchors, labels.data() + first, stride},
                                 DTypeOf<T>::value,
                                 classes,
                                 logits.data(),
                                 &scale,
                                 alpha,
                                 gamma};
    run_on(isa, FocalLossForward{inputs, &r.loss});
    run_on(isa, FocalLossBackward{inputs, &upstream, r.dlogits.data()});
    std::vector<T> in_place = logits;
    FocalLossBackward backward{inputs, &upstream, in_place.data()};
    backward.logits = in_place.data();
    run_on(isa, backward);
    for (std::size_t i = 0; i < in_place.size(); ++i) {
      const bool nan = std::isnan(as_double(in_place[i])) && std::isnan(as_double(r.dlogits[i]));
      EXPECT_TRUE(nan || as_double(in_place[i]) == as_double(r.dlogits[i])) << "in place " << i;
    }
    return r;
  }

  // All terms of the loss are positive, and the two terms of a gradient have one sign. So errors
  // are relative to the result.
  void check() const {
    const double eps = epsilon_of<A>();
    for (Isa isa : isas()) {
      SCOPED_TRACE(cat(name_of(isa), " ", batch, " x ", anchors, " x ", classes, " gamma ", gamma));
      const Result r = run_both(isa);
      long double loss = 0;
      for (std::int64_t i = 0; i < batch * anchors * classes; ++i) {
        const std::int64_t of = label(i / classes);
        const bool hot = of == i % classes;
        const long double z = as_double(logits[static_cast<std::size_t>(i)]), u = hot ? -z : z;
        const long double likely = 1 / (1 + std::exp(-std::abs(u)));
        const long double unlikely = std::exp(-std::abs(u)) * likely;
        const long double q = u < 0 ? unlikely : likely, right = u < 0 ? likely : unlikely;
        const long double error = std::max(u, 0.0L) + std::log1p(std::exp(-std::abs(u)));
        const long double w = of == -2 ? 0.0L : static_cast<long double>(hot ? alpha : 1 - alpha);
        const long double power = w * std::pow(q, static_cast<long double>(gamma));
        loss += power * error;
        const long double slope = power * (gamma * right * error + q) * (hot ? -1 : 1);
        const long double want = scale * upstream * slope;
        // exp amplifies the rounding of its argument, and so does the power.
        long double bound = eps * std::abs(want) * (8 + (2 + gamma) * (4 + std::abs(z)));
        if (std::is_same_v<T, bfloat16>) bound += 0x1.02p-8 * std::abs(want);
        bound += std::is_same_v<A, float> ? 0x1p-125 : 0x1p-1022;  // denormals or 0
        ASSERT_NEAR(as_double(r.dlogits[static_cast<std::size_t>(i)]), want, bound) << i;
      }
      ASSERT_NEAR(r.loss, scale * loss, eps * scale * loss * 32);
    }
  }
};

template <class T>
class FocalLoss : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(FocalLoss, Types);

TYPED_TEST(FocalLoss, MatchesLongDouble) {
  for (std::int64_t classes : {1, 3, 16, 17, 80, 83}) {
    for (std::int64_t anchors : {1, 37}) {
      Problem<TypeParam> problem(2, anchors, classes);
      problem.check();
      for (double gamma : {0.0, 1.0, 1.5, 3.0}) {
        problem.gamma = gamma, problem.alpha = 0.5;
        problem.check();
      }
    }
  }
}

// Logits of some hundred: neither 0 nor infinity where there is a number.
TYPED_TEST(FocalLoss, AccurateForSaturatedLogits) {
  Problem<TypeParam>(2, 37, 19, 30).check();
  Problem<TypeParam> large(1, 40, 5, 0);
  for (std::size_t i = 0; i < large.logits.size(); ++i) {
    large.logits[i] = static_cast<TypeParam>(AccumulatorOf<TypeParam>(i % 2 ? 100 : -100));
  }
  large.check();
}

// Gamma 0 and alpha 1/2 give half of the binary cross-entropy.
TYPED_TEST(FocalLoss, GammaZeroIsBinaryCrossEntropy) {
  Problem<TypeParam> problem(1, 2, 1);
  problem.gamma = 0, problem.alpha = 0.5, problem.scale = 2;
  problem.label(0) = 0, problem.label(1) = -1;
  const double a = as_double(problem.logits[0]), b = as_double(problem.logits[1]);
  const double want = std::log1p(std::exp(-a)) + std::log1p(std::exp(b));
  for (Isa isa : isas()) EXPECT_NEAR(problem.run_both(isa).loss, want, 1e-6 * want);
}

TYPED_TEST(FocalLoss, InfinityAndNaN) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  const A inf = std::numeric_limits<A>::infinity();
  for (double gamma : {2.0, 1.5}) {
    for (Isa isa : isas()) {
      Problem<T> problem(1, 2, 19);
      problem.gamma = gamma;
      problem.label(0) = 4, problem.label(1) = -1;
      problem.logits[4] = static_cast<T>(inf), problem.logits[0] = static_cast<T>(-inf);  // correct
      auto r = problem.run_both(isa);
      EXPECT_TRUE(std::isfinite(r.loss));
      EXPECT_EQ(as_double(r.dlogits[4]), 0);
      EXPECT_EQ(as_double(r.dlogits[0]), 0);
      problem.logits[19 + 7] = static_cast<T>(inf);  // wrong
      r = problem.run_both(isa);
      EXPECT_EQ(r.loss, inf);
      EXPECT_EQ(as_double(r.dlogits[19 + 7]), 0.75 * 0.25 * -0.75);
      problem.logits[19 + 7] = static_cast<T>(std::numeric_limits<A>::quiet_NaN());
      r = problem.run_both(isa);
      EXPECT_TRUE(std::isnan(r.loss));
      EXPECT_TRUE(std::isnan(as_double(r.dlogits[19 + 7])));
      EXPECT_TRUE(std::isfinite(as_double(r.dlogits[19 + 6])));
      problem.label(1) = -2;
      r = problem.run_both(isa);
      EXPECT_TRUE(std::isfinite(r.loss)) << "an ignored anchor";
      for (std::size_t k = 19; k < 38; ++k) EXPECT_EQ(as_double(r.dlogits[k]), 0);
    }
  }
}

TYPED_TEST(FocalLoss, InvalidLabelGivesNaN) {
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (Isa isa : isas()) {
    for (std::int64_t label : {std::int64_t{-3}, std::int64_t{10}, kFar, -kFar - 1}) {
      Problem<TypeParam> problem(1, 3, 10);
      problem.label(1) = label;
      const auto r = problem.run_both(isa);
      EXPECT_TRUE(std::isnan(r.loss));
      for (std::size_t i = 0; i < 30; ++i) {
        EXPECT_EQ(std::isnan(as_double(r.dlogits[i])), i / 10 == 1) << i;
      }
    }
  }
}

TYPED_TEST(FocalLoss, SameBitsForAnyNumberOfThreads) {
  const Problem<TypeParam> problem(2, 1003, 80);
  for (Isa isa : isas()) {
    std::optional<typename Problem<TypeParam>::Result> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      auto r = problem.run_both(isa);
      if (!first) first = r;
      EXPECT_TRUE(r.loss == first->loss && same_bits(r.dlogits, first->dlogits))
          << name_of(isa) << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace dtn::test
