#include "kernels/loss/weighted_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "kernels/loss/cross_entropy.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(WeightedCrossEntropyForward)
DTN_RUN_ON_EACH_ISA(WeightedCrossEntropyBackward)
DTN_RUN_ON_EACH_ISA(CrossEntropyForward)
DTN_RUN_ON_EACH_ISA(CrossEntropyBackward)

namespace dtn::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Rows of logits with labels, or with targets whose sum may differ from 1.
template <class T>
struct WeightedProblem {
  using A = AccumulatorOf<T>;
  std::int64_t rows, classes;
  std::vector<T> logits;               // [rows, classes]
  std::vector<std::int64_t> labels;    // [rows]
  std::vector<A> targets;              // [rows, classes] or empty
  std::vector<std::int64_t> partners;  // [rows] or empty
  std::vector<float> share;            // [rows] or empty
  std::vector<A> weights;              // [classes] or empty
  double smoothing = 0, gamma = 0;

  WeightedProblem(std::int64_t r, std::int64_t k, double mean = 0, double std = 2)
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
  // The last class has no weight.
  void use_weights() {
    for (std::int64_t k = 0; k < classes; ++k) {
      weights.push_back(static_cast<A>(k + 1 < classes ? 0.25 + static_cast<double>(k % 9) : 0));
    }
  }
  WeightedCrossEntropyInputs inputs() const {
    WeightedCrossEntropyInputs in{};
    in.labels = targets.empty() ? labels.data() : nullptr;
    in.targets = targets.empty() ? nullptr : targets.data();
    in.smoothing = smoothing;
    in.partner_labels = partners.empty() ? nullptr : partners.data();
    in.label_share = partners.empty() ? nullptr : share.data();
    in.dtype = DTypeOf<T>::value;
    in.rows = rows;
    in.classes = classes;
    in.logits = logits.data();
    in.class_weights = weights.empty() ? nullptr : weights.data();
    in.gamma = gamma;
    return in;
  }

  // The reference is long double, so that it is accurate for float64 logits too.
  long double weight(std::int64_t row, std::int64_t k) const {
    const auto at = static_cast<std::size_t>(k), i = static_cast<std::size_t>(row);
    const long double of_class = weights.empty() ? 1 : weights[at];
    if (!targets.empty()) return of_class * targets[i * static_cast<std::size_t>(classes) + at];
    const long double own = partners.empty() ? 1 : share[i],
                      hot = 1 - static_cast<long double>(smoothing);
    long double target = static_cast<long double>(smoothing) / static_cast<long double>(classes);
    if (labels[i] == k) target += own * hot;
    if (!partners.empty() && partners[i] == k) target += (1 - own) * hot;
    return of_class * target;
  }
  long double logit(std::int64_t row, std::int64_t k) const {
    return as_double(logits[static_cast<std::size_t>(row * classes + k)]);
  }
  // -log p
  long double negative_log(std::int64_t row, std::int64_t k) const {
    long double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(logit(row, i) - logit(row, k));
    return std::log(sum);
  }
  long double factor(long double n) const { return std::pow(-std::expm1(-n), gamma); }
  long double slope(long double n) const {
    const long double q = -std::expm1(-n);
    return factor(n) * (1 + (q > 0 ? gamma * std::exp(-n) * n / q : gamma));
  }

  struct Result {
    std::vector<A> loss, lse;
    std::vector<T> dlogits;
  };
  Result run_both(Isa isa, double scale = 0.25) {
    Result r{std::vector<A>(labels.size()), std::vector<A>(labels.size()),
             std::vector<T>(logits.size())};
    run_on(isa, WeightedCrossEntropyForward{inputs(), r.loss.data(), r.lse.data()});
    WeightedCrossEntropyBackward backward{inputs(), r.lse.data(), scale, r.dlogits.data()};
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
    SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", classes, " smoothing ", smoothing, " gamma ",
                     gamma, targets.empty() ? " labels" : " targets",
                     partners.empty() ? "" : ", shared", weights.empty() ? "" : ", weights"));
    const double eps = epsilon_of<A>(), scale = 0.25;
    // Sums over the classes accumulate rounding errors.
    const double root = std::sqrt(static_cast<double>(classes)) + 2;
    Result r = run_both(isa, scale);
    for (std::int64_t row = 0; row < rows; ++row) {
      long double loss = 0, loss_error = 0, total = 0, total_error = 0;
      std::vector<long double> a, a_error;
      for (std::int64_t k = 0; k < classes; ++k) {
        const long double w = weight(row, k), n = negative_log(row, k);
        // The error of -log p, from the sum of the exponentials and the saved lse.
        const long double dn = eps * (root + n + std::abs(logit(row, k) + n));
        loss += w * factor(n) * n;
        // A larger exponent makes errors of -log p count more, at most as 1 + gamma.
        loss_error += w * (slope(n) * dn + eps * (root + 8 + gamma) * factor(n) * n);
        a.push_back(w * slope(n));
        const long double by_n = std::abs(slope(n + dn) - slope(std::max(0.0L, n - dn)));
        a_error.push_back(w * (by_n + eps * (16 + gamma) * slope(n)));
        total += a.back();
        total_error += a_error.back() + eps * root * a.back();
      }
      ASSERT_NEAR(r.loss[row], loss, loss_error) << "row " << row;
      for (std::int64_t k = 0; k < classes; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const long double n = negative_log(row, k), p = std::exp(-n);
        const long double dn = eps * (root + n + std::abs(logit(row, k) + n));
        const long double expected = scale * (p * total - a[at]);
        long double tolerance =
            scale * (p * (total_error + total * (dn + 4 * eps)) + a_error[at] + eps * a[at]);
        if (std::is_same_v<T, bfloat16>) tolerance += 0x1.02p-8 * std::abs(expected);
        tolerance += std::is_same_v<A, float> ? 0x1p-125 : 0x1p-1022;  // denormals or 0
        const double got = as_double(r.dlogits[static_cast<std::size_t>(row * classes + k)]);
        ASSERT_NEAR(got, expected, tolerance) << "row " << row << " class " << k;
      }
    }
  }
};

template <class T>
class WeightedCrossEntropy : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(WeightedCrossEntropy, Types);

TYPED_TEST(WeightedCrossEntropy, MatchesFormula) {
  for (Isa isa : isas()) {
    for (std::int64_t classes : {2, 7, 16, 17, 103}) {
      for (double gamma : {0.0, 0.5, 2.0, 5.0}) {
        WeightedProblem<TypeParam> problem(7, classes);
        problem.gamma = gamma;
        problem.check(isa);
        problem.use_weights();
        problem.check(isa);
        problem.smoothing = 0.1;
        problem.check(isa);
        WeightedProblem<TypeParam> shared = problem;
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

// Rows in which the model is almost certain, of the label or of another class.
TYPED_TEST(WeightedCrossEntropy, AccurateForLargeOffsetsAndSpreads) {
  for (Isa isa : isas()) {
    for (double gamma : {0.0, 0.5, 2.0}) {
      for (auto [mean, std] : {std::pair{1000.0, 1.0}, {-3000.0, 1.0}, {0.0, 50.0}}) {
        WeightedProblem<TypeParam> problem(5, 37, mean, std);
        problem.gamma = gamma;
        problem.check(isa);
        problem.smoothing = 0.1;
        problem.use_weights();
        problem.check(isa);
      }
    }
  }
}

// Without weights, smoothing and gamma, the loss has the bits of the plain cross-entropy.
TYPED_TEST(WeightedCrossEntropy, PlainLossHasBitsOfCrossEntropy) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (Isa isa : isas()) {
    for (bool weighted : {false, true}) {
      WeightedProblem<T> problem(9, 103);
      if (weighted) problem.weights.assign(103, A(1));
      const auto got = problem.run_both(isa);
      std::vector<A> loss(9), lse(9);
      std::vector<T> dlogits(problem.logits.size());
      const ClassTargets labels{.labels = problem.labels.data()};
      constexpr DType dtype = DTypeOf<T>::value;
      run_on(isa, CrossEntropyForward{labels, dtype, 9, 103, problem.logits.data(), loss.data(),
                                      lse.data()});
      run_on(isa, CrossEntropyBackward{labels, dtype, 9, 103, problem.logits.data(), lse.data(),
                                       0.25, dlogits.data()});
      EXPECT_TRUE(same_bits(got.loss, loss) && same_bits(got.lse, lse)) << name_of(isa);
      const double rounding = std::is_same_v<T, bfloat16> ? 0x1p-8 : 4 * epsilon_of<A>();
      for (std::size_t i = 0; i < dlogits.size(); ++i) {
        EXPECT_NEAR(as_double(got.dlogits[i]), as_double(dlogits[i]), 0.25 * rounding);
      }
    }
  }
}

// An answer that is right for certain has no loss and no gradient.
TYPED_TEST(WeightedCrossEntropy, CertainAnswerCountsNothing) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (double gamma : {0.5, 1.0, 2.0}) {
      WeightedProblem<T> problem(2, 5, 0, 0);
      problem.gamma = gamma;
      problem.labels = {3, 3};
      problem.logits[3] = static_cast<T>(static_cast<AccumulatorOf<T>>(1000));
      const auto r = problem.run_both(isa);
      EXPECT_EQ(r.loss[0], 0);
      for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(as_double(r.dlogits[k]), 0) << name_of(isa);
      EXPECT_GT(r.loss[1], 0);
    }
  }
}

TYPED_TEST(WeightedCrossEntropy, NaNStaysInItsRow) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (double gamma : {0.0, 2.0}) {
      for (std::int64_t at = 0; at < 17; ++at) {
        WeightedProblem<T> problem(3, 17);
        problem.gamma = gamma;
        problem.use_weights();
        problem.labels[1] = 16;  // without a weight
        problem.logits[static_cast<std::size_t>(17 + at)] =
            static_cast<T>(static_cast<AccumulatorOf<T>>(kNan));
        auto r = problem.run_both(isa);
        ASSERT_TRUE(std::isnan(r.loss[1])) << name_of(isa) << " class " << at;
        ASSERT_TRUE(std::isfinite(r.loss[0]) && std::isfinite(r.loss[2]));
        ASSERT_TRUE(std::isnan(as_double(r.dlogits[17])));
        ASSERT_TRUE(std::isfinite(as_double(r.dlogits[0])));
      }
    }
  }
}

TYPED_TEST(WeightedCrossEntropy, ImpossibleLabelWithoutWeightCountsNothing) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (double gamma : {0.0, 0.5, 2.0}) {
      WeightedProblem<T> problem(2, 19);
      problem.gamma = gamma;
      problem.labels = {18, 4};
      problem.use_weights();  // class 18 has none
      problem.logits[18] = problem.logits[19 + 4] =
          static_cast<T>(-static_cast<AccumulatorOf<T>>(kInf));
      auto r = problem.run_both(isa);
      EXPECT_EQ(r.loss[0], 0) << name_of(isa);
      EXPECT_EQ(r.loss[1], kInf) << name_of(isa);
      for (const T& dz : r.dlogits) EXPECT_TRUE(std::isfinite(as_double(dz))) << name_of(isa);
    }
  }
}

TYPED_TEST(WeightedCrossEntropy, InvalidLabelGivesNaNInItsRowOnly) {
  using T = TypeParam;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (Isa isa : isas()) {
    for (std::int64_t label : {std::int64_t{-1}, std::int64_t{10}, kFar, -kFar - 1}) {
      WeightedProblem<T> problem(3, 10);
      problem.gamma = 2;
      problem.use_weights();
      problem.smoothing = 0.1;
      const auto expected = problem.run_both(isa);
      problem.labels[1] = label;
      const auto r = problem.run_both(isa);
      EXPECT_TRUE(std::isnan(r.loss[1]));
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

TYPED_TEST(WeightedCrossEntropy, ScalesWithUpstreamGradient) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    WeightedProblem<T> problem(5, 37);
    problem.gamma = 2;
    problem.use_weights();
    auto scaled = problem.run_both(isa, -0.75 * 0.25);
    const auto upstream = static_cast<AccumulatorOf<T>>(-0.75);
    std::vector<T> dlogits(problem.logits.size());
    WeightedCrossEntropyBackward args{problem.inputs(), scaled.lse.data(), 0.25, dlogits.data()};
    args.upstream = &upstream;
    run_on(isa, args);
    EXPECT_TRUE(same_bits(dlogits, scaled.dlogits)) << name_of(isa);
  }
}

TYPED_TEST(WeightedCrossEntropy, SameBitsForAnyNumberOfThreads) {
  WeightedProblem<TypeParam> problem(203, 1003);
  problem.smoothing = 0.1;
  problem.gamma = 0.5;
  problem.use_weights();
  for (Isa isa : isas()) {
    std::optional<typename WeightedProblem<TypeParam>::Result> first;
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
