#include "kernels/loss/cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(CrossEntropyForward)
DTN_RUN_ON_EACH_ISA(CrossEntropyBackward)

namespace dtn::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Rows of logits with labels, or with targets whose sum may differ from 1.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  std::int64_t rows, classes;
  std::vector<T> logits;               // [rows, classes]
  std::vector<std::int64_t> labels;    // [rows]
  std::vector<A> targets;              // [rows, classes] or empty
  std::vector<std::int64_t> partners;  // [rows] or empty
  std::vector<float> share;            // [rows] or empty
  double smoothing = 0;

  Problem(std::int64_t r, std::int64_t k, double mean = 0, double std = 2)
      : rows(r), classes(k), logits(normal_values<T>(r * k, 1, mean, std)) {
    for (std::int64_t i = 0; i < r; ++i) labels.push_back((i * 7919 + k - 1) % k);
  }
  void use_targets() {
    targets = normal_values<A>(rows * classes, 2);
    for (A& t : targets) t = t > 0 ? t / static_cast<A>(classes) : A(0);
  }
  // Some partners have the same class. The shares of the own label include 0 and 1.
  void use_partners() {
    partners.assign(labels.rbegin(), labels.rend());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      share.push_back(static_cast<float>(i % 5) / 4);
      if (i % 3 == 1) partners[i] = labels[i];
    }
  }

  // The reference is long double, so that it is accurate for float64 logits too.
  long double target(std::int64_t row, std::int64_t k) const {
    if (!targets.empty()) return targets[static_cast<std::size_t>(row * classes + k)];
    const auto i = static_cast<std::size_t>(row);
    long double hot = 0, own = partners.empty() ? 1 : share[i];
    if (labels[i] == k) hot += own * (1 - static_cast<long double>(smoothing));
    if (!partners.empty() && partners[i] == k)
      hot += (1 - own) * (1 - static_cast<long double>(smoothing));
    return hot + static_cast<long double>(smoothing) / static_cast<long double>(classes);
  }
  long double logit(std::int64_t row, std::int64_t k) const {
    return as_double(logits[static_cast<std::size_t>(row * classes + k)]);
  }
  long double largest(std::int64_t row) const {
    long double m = -kInf;
    for (std::int64_t k = 0; k < classes; ++k) m = std::max(m, logit(row, k));
    return m;
  }
  long double lse(std::int64_t row) const {
    long double m = largest(row), sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(logit(row, k) - m);
    return m + std::log(sum);
  }

  struct Result {
    std::vector<A> loss, lse;
    std::vector<T> dlogits;
  };
  Result run_both(Isa isa, double scale = 0.25) {
    Result r{std::vector<A>(labels.size()), std::vector<A>(labels.size()),
             std::vector<T>(logits.size())};
    const void* soft = targets.empty() ? nullptr : targets.data();
    const std::int64_t* hard = targets.empty() ? labels.data() : nullptr;
    constexpr DType dtype = DTypeOf<T>::value;
    ClassTargets against{hard, soft, smoothing};
    if (!partners.empty()) {
      against.partner_labels = partners.data();
      against.label_share = share.data();
    }
    CrossEntropyForward forward{against,       dtype,         rows,        classes,
                                logits.data(), r.loss.data(), r.lse.data()};
    CrossEntropyBackward backward{against,       dtype,        rows,  classes,
                                  logits.data(), r.lse.data(), scale, r.dlogits.data()};
    run_on(isa, forward);
    run_on(isa, backward);
    std::vector<T> in_place = logits;
    backward.logits = backward.dlogits = in_place.data();
    run_on(isa, backward);
    for (std::size_t i = 0; i < in_place.size(); ++i) {  // NaN has many bit patterns
      bool nan = std::isnan(as_double(in_place[i])) && std::isnan(as_double(r.dlogits[i]));
      EXPECT_TRUE(nan || as_double(in_place[i]) == as_double(r.dlogits[i])) << "in place " << i;
    }
    return r;
  }

  void check(Isa isa) {
    SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", classes, " smoothing ", smoothing,
                     targets.empty() ? " labels" : " targets", partners.empty() ? "" : ", shared"));
    const double eps = epsilon_of<A>(), scale = 0.25;
    // Sums over the classes accumulate rounding errors.
    const double root = std::sqrt(static_cast<double>(classes)) + 2;
    Result r = run_both(isa, scale);
    for (std::int64_t row = 0; row < rows; ++row) {
      const long double m = largest(row), log_z = lse(row);
      long double weight = 0, dot = 0, magnitude = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        weight += target(row, k);
        dot += target(row, k) * (logit(row, k) - m);
        magnitude += target(row, k) * (m - logit(row, k));
      }
      long double error = eps * (root * (weight + magnitude) + (log_z - m) * weight);
      ASSERT_NEAR(r.loss[row], (log_z - m) * weight - dot, error) << "row " << row;
      ASSERT_NEAR(r.lse[row], log_z, eps * (root + std::abs(log_z)));
      for (std::int64_t k = 0; k < classes; ++k) {
        long double p = std::exp(logit(row, k) - log_z), t = target(row, k);
        long double expected = scale * (p * weight - t);
        // exp amplifies the rounding of lse and of z - lse; the weight is a rounded sum.
        long double argument = std::abs(log_z) + std::abs(logit(row, k) - log_z) + 2 * root + 2;
        long double tolerance = scale * eps * (p * weight * argument + t);
        if (std::is_same_v<T, bfloat16>) tolerance += 0x1.02p-8 * std::abs(expected);
        tolerance += std::is_same_v<A, float> ? 0x1p-125 : 0x1p-1022;  // denormals or 0
        double got = as_double(r.dlogits[static_cast<std::size_t>(row * classes + k)]);
        ASSERT_NEAR(got, expected, tolerance) << "row " << row << " class " << k;
      }
    }
  }
};

template <class T>
class CrossEntropy : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(CrossEntropy, Types);

TYPED_TEST(CrossEntropy, MatchesFloat64) {
  for (Isa isa : isas()) {
    for (std::int64_t classes : {1, 2, 7, 10, 15, 16, 17, 1003}) {
      for (std::int64_t rows : {1, 37}) {
        Problem<TypeParam> problem(rows, classes);
        problem.check(isa);
        problem.smoothing = 0.1;
        problem.check(isa);
        Problem<TypeParam> shared = problem;
        shared.use_partners();
        shared.check(isa);
        shared.smoothing = 0;
        shared.check(isa);
        problem.use_targets();
        problem.check(isa);
      }
    }
  }
}

TYPED_TEST(CrossEntropy, AccurateForLargeOffsetsAndSpreads) {
  for (Isa isa : isas()) {
    Problem<TypeParam>(5, 37, 1000, 1).check(isa);
    Problem<TypeParam>(5, 37, -30000, 1).check(isa);
    Problem<TypeParam> wide(5, 37, 0, 300);
    wide.check(isa);
    wide.smoothing = 0.1;
    wide.check(isa);
  }
}

TYPED_TEST(CrossEntropy, NaNStaysInItsRow) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (std::int64_t classes : {5, 16, 33}) {
      for (std::int64_t at = 0; at < classes; ++at) {
        Problem<T> problem(3, classes);
        std::size_t index = static_cast<std::size_t>(classes + at);
        problem.logits[index] = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
        auto r = problem.run_both(isa);
        ASSERT_TRUE(std::isnan(r.loss[1])) << name_of(isa) << " class " << at;
        ASSERT_TRUE(std::isfinite(r.loss[0]) && std::isfinite(r.loss[2]));
        ASSERT_TRUE(std::isnan(as_double(r.dlogits[static_cast<std::size_t>(classes)])));
        ASSERT_TRUE(std::isfinite(as_double(r.dlogits[0])));
      }
    }
  }
}

TYPED_TEST(CrossEntropy, MinusInfinityLogitHasZeroProbability) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    Problem<T> problem(2, 19);
    problem.labels = {0, 4};
    problem.logits[18] = problem.logits[19 + 4] =
        static_cast<T>(-static_cast<AccumulatorOf<T>>(kInf));
    auto r = problem.run_both(isa);
    EXPECT_NEAR(r.loss[0], problem.lse(0) - problem.logit(0, 0),
                20 * epsilon_of<AccumulatorOf<T>>());
    EXPECT_EQ(as_double(r.dlogits[18]), 0);
    EXPECT_EQ(r.loss[1], kInf);
    problem.use_targets();
    problem.targets[18] = 0;  // 0 x infinity counts as 0
    problem.targets[19 + 4] = 0;
    r = problem.run_both(isa);
    EXPECT_TRUE(std::isfinite(r.loss[0]) && std::isfinite(r.loss[1]));
  }
}

// A share of 1, or mixing with a row of the same class, changes no bit.
TYPED_TEST(CrossEntropy, MixWeightOneHasBitsOfPlainLabel) {
  for (Isa isa : isas()) {
    for (double smoothing : {0.0, 0.1}) {
      Problem<TypeParam> problem(6, 37);
      problem.smoothing = smoothing;
      auto alone = problem.run_both(isa);
      problem.partners = problem.labels;
      problem.share.assign(6, 0.3f);
      auto own_class = problem.run_both(isa);
      std::ranges::reverse(problem.partners);
      problem.share.assign(6, 1.0f);
      auto whole = problem.run_both(isa);
      problem.partners = problem.labels;
      std::ranges::reverse(problem.labels);
      problem.share.assign(6, 0.0f);
      auto none = problem.run_both(isa);
      for (const auto* r : {&own_class, &whole, &none}) {
        EXPECT_TRUE(same_bits(r->loss, alone.loss) && same_bits(r->dlogits, alone.dlogits));
      }
    }
  }
}

// An impossible class with a share of 0 adds nothing to the loss.
TYPED_TEST(CrossEntropy, MixWeightZeroIgnoresImpossibleClass) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    Problem<T> problem(2, 19);
    problem.labels = {3, 5};
    problem.partners = {4, 6};
    problem.share = {1, 0};
    for (std::size_t i : {4, 19 + 5}) {
      problem.logits[i] = static_cast<T>(-static_cast<AccumulatorOf<T>>(kInf));
    }
    auto r = problem.run_both(isa);
    EXPECT_TRUE(std::isfinite(r.loss[0]) && std::isfinite(r.loss[1])) << name_of(isa);
    problem.share = {0.5f, 0.5f};
    r = problem.run_both(isa);
    EXPECT_TRUE(r.loss[0] == kInf && r.loss[1] == kInf) << name_of(isa);
  }
}

TYPED_TEST(CrossEntropy, InvalidLabelGivesNaNInItsRowOnly) {
  using T = TypeParam;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (Isa isa : isas()) {
    for (std::int64_t label : {std::int64_t{-1}, std::int64_t{10}, kFar, -kFar - 1}) {
      for (auto [smoothing, partner] : {std::pair{0.0, false}, {0.1, false}, {0.1, true}}) {
        Problem<T> problem(3, 10);
        problem.smoothing = smoothing;
        if (partner) problem.partners = problem.labels;
        if (partner) problem.share.assign(3, 0.5f);
        auto expected = problem.run_both(isa);
        (partner ? problem.partners : problem.labels)[1] = label;
        auto r = problem.run_both(isa);
        EXPECT_TRUE(std::isnan(r.loss[1]));
        EXPECT_EQ(r.lse, expected.lse);
        for (std::size_t i = 0; i < 30; ++i) {
          if (i / 10 == 1) {
            EXPECT_TRUE(std::isnan(as_double(r.dlogits[i])));
          } else {
            EXPECT_EQ(as_double(r.dlogits[i]), as_double(expected.dlogits[i]));
          }
        }
      }
    }
  }
}

TYPED_TEST(CrossEntropy, ScalesWithUpstreamGradient) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (Isa isa : isas()) {
    for (bool soft : {false, true}) {
      Problem<T> problem(5, 37);
      problem.smoothing = soft ? 0 : 0.1;
      if (soft) problem.use_targets();
      auto scaled = problem.run_both(isa, -0.75 * 0.25);
      const A upstream = static_cast<A>(-0.75);
      std::vector<T> dlogits(problem.logits.size());
      CrossEntropyBackward args{};
      args.dtype = DTypeOf<T>::value;
      args.rows = 5;
      args.classes = 37;
      args.logits = problem.logits.data();
      args.labels = soft ? nullptr : problem.labels.data();
      args.targets = soft ? problem.targets.data() : nullptr;
      args.smoothing = problem.smoothing;
      args.lse = scaled.lse.data();
      args.scale = 0.25;
      args.dlogits = dlogits.data();
      args.upstream = &upstream;
      run_on(isa, args);
      EXPECT_TRUE(same_bits(dlogits, scaled.dlogits)) << name_of(isa);
    }
  }
}

TYPED_TEST(CrossEntropy, SameBitsForAnyNumberOfThreads) {
  Problem<TypeParam> problem(203, 1003);
  problem.smoothing = 0.1;
  for (Isa isa : isas()) {
    std::optional<typename Problem<TypeParam>::Result> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      auto r = problem.run_both(isa);
      if (!first) first = r;
      EXPECT_TRUE(same_bits(r.loss, first->loss) && same_bits(r.lse, first->lse) &&
                  same_bits(r.dlogits, first->dlogits))
          << name_of(isa) << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace dtn::test
