#include "kernels/loss/binary_cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(BinaryCrossEntropyForward)
DTN_RUN_ON_EACH_ISA(BinaryCrossEntropyBackward)

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
  double smoothing = 0, scale = 0.25;
  std::optional<double> threshold;

  Problem(std::int64_t r, std::int64_t k, double mean = 0, double std = 2)
      : rows(r), classes(k), logits(normal_values<T>(r * k, 1, mean, std)) {
    for (std::int64_t i = 0; i < r; ++i) labels.push_back((i * 7919 + k - 1) % k);
  }
  void use_targets() {
    targets = normal_values<A>(rows * classes, 2, 0.5, 0.3);
    for (A& t : targets) t = t < 0 ? A(0) : t > 1 ? A(1) : t;
  }
  // Some partners have the same class. The shares of the own label include 0 and 1.
  void use_partners() {
    partners.assign(labels.rbegin(), labels.rend());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      share.push_back(static_cast<float>(i % 5) / 4);
      if (i % 3 == 1) partners[i] = labels[i];
    }
  }

  long double logit(std::int64_t row, std::int64_t k) const {
    return as_double(logits[static_cast<std::size_t>(row * classes + k)]);
  }
  long double target(std::int64_t row, std::int64_t k) const {
    const auto i = static_cast<std::size_t>(row);
    long double t = 0;
    if (!targets.empty()) {
      t = targets[static_cast<std::size_t>(row * classes + k)];
    } else {
      const long double own = partners.empty() ? 1 : share[i];
      if (labels[i] == k) t += own * (1 - static_cast<long double>(smoothing));
      if (!partners.empty() && partners[i] == k)
        t += (1 - own) * (1 - static_cast<long double>(smoothing));
      t += static_cast<long double>(smoothing) / static_cast<long double>(classes);
    }
    return threshold ? t > *threshold : t;
  }

  struct Result {
    std::vector<A> loss;
    std::vector<T> dlogits;
  };
  Result run_both(Isa isa, const A* upstream = nullptr) {
    Result r{std::vector<A>(labels.size()), std::vector<T>(logits.size())};
    constexpr DType dtype = DTypeOf<T>::value;
    BinaryTargets against;
    against.labels = targets.empty() ? labels.data() : nullptr;
    against.targets = targets.empty() ? nullptr : targets.data();
    against.smoothing = smoothing;
    if (!partners.empty()) against.partner_labels = partners.data();
    if (!partners.empty()) against.label_share = share.data();
    against.binarize = threshold.has_value();
    against.threshold = threshold.value_or(0);
    run_on(isa, BinaryCrossEntropyForward{dtype, rows, classes, logits.data(), against, scale,
                                          r.loss.data()});
    BinaryCrossEntropyBackward backward{dtype,   rows,  classes,          logits.data(),
                                        against, scale, r.dlogits.data(), upstream};
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

  // All terms of the loss are positive, and all terms of a gradient have the same sign except for
  // soft targets. So errors are relative to the result.
  void check(Isa isa) {
    SCOPED_TRACE(cat(name_of(isa), " ", rows, " x ", classes, " smoothing ", smoothing,
                     targets.empty() ? " labels" : " targets", partners.empty() ? "" : ", shared",
                     threshold ? ", binarized" : ""));
    const double eps = epsilon_of<A>(), root = std::sqrt(static_cast<double>(classes));
    Result r = run_both(isa);
    for (std::int64_t row = 0; row < rows; ++row) {
      long double loss = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        const long double z = logit(row, k), t = target(row, k);
        const long double likely = 1 / (1 + std::exp(-std::abs(z)));
        const long double unlikely = std::exp(-std::abs(z)) * likely;
        const long double yes = z < 0 ? unlikely : likely, no = z < 0 ? likely : unlikely;
        loss += t * std::max(-z, 0.0L) + (1 - t) * std::max(z, 0.0L) +
                std::log1p(std::exp(-std::abs(z)));
        const long double expected = scale * ((1 - t) * yes - t * no);
        // exp amplifies the rounding of its argument; soft targets amplify that of the two parts.
        const long double parts = scale * ((1 - t) * yes + t * no);
        long double tolerance = eps * parts * (8 + std::abs(z));
        if (std::is_same_v<T, bfloat16>) tolerance += 0x1.02p-8 * std::abs(expected);
        tolerance += std::is_same_v<A, float> ? 0x1p-125 : 0x1p-1022;  // denormals or 0
        const double got = as_double(r.dlogits[static_cast<std::size_t>(row * classes + k)]);
        ASSERT_NEAR(got, expected, tolerance) << "row " << row << " class " << k;
      }
      ASSERT_NEAR(r.loss[row], scale * loss, scale * eps * loss * (root + 8)) << "row " << row;
    }
  }
};

template <class T>
class BinaryCrossEntropy : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(BinaryCrossEntropy, Types);

TYPED_TEST(BinaryCrossEntropy, MatchesLongDouble) {
  for (Isa isa : isas()) {
    for (std::int64_t classes : {1, 2, 7, 15, 16, 17, 1003}) {
      for (std::int64_t rows : {1, 37}) {
        for (std::optional<double> threshold : {std::optional<double>(), {0.0}, {0.2}}) {
          Problem<TypeParam> problem(rows, classes);
          problem.threshold = threshold;
          problem.check(isa);
          Problem<TypeParam> shared = problem;
          shared.use_partners();
          shared.check(isa);
          shared.smoothing = problem.smoothing = 0.1;
          problem.check(isa);
          shared.check(isa);
          problem.use_targets();
          problem.check(isa);
        }
      }
    }
  }
}

// For an almost certain answer the loss and the gradient are tiny, but stay accurate.
TYPED_TEST(BinaryCrossEntropy, AccurateForSaturatedLogits) {
  for (Isa isa : isas()) {
    Problem<TypeParam> sure(3, 37, -20, 1);
    for (std::int64_t i = 0; i < 3; ++i) {
      sure.logits[static_cast<std::size_t>(i * 37 + sure.labels[static_cast<std::size_t>(i)])] =
          static_cast<TypeParam>(AccumulatorOf<TypeParam>(18));
    }
    sure.check(isa);
    Problem<TypeParam>(3, 37, 0, 30).check(isa);
  }
}

TYPED_TEST(BinaryCrossEntropy, NaNStaysInItsRow) {
  using T = TypeParam;
  for (Isa isa : isas()) {
    for (std::int64_t classes : {5, 16, 33}) {
      for (std::int64_t at = 0; at < classes; ++at) {
        Problem<T> problem(3, classes);
        const auto index = static_cast<std::size_t>(classes + at);
        problem.logits[index] = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
        auto r = problem.run_both(isa);
        ASSERT_TRUE(std::isnan(r.loss[1])) << name_of(isa) << " class " << at;
        ASSERT_TRUE(std::isfinite(r.loss[0]) && std::isfinite(r.loss[2]));
        ASSERT_TRUE(std::isnan(as_double(r.dlogits[index])));
        ASSERT_TRUE(std::isfinite(as_double(r.dlogits[0])));
      }
    }
  }
}

TYPED_TEST(BinaryCrossEntropy, InfiniteLogitsAreExact) {
  using T = TypeParam;
  using A = AccumulatorOf<T>;
  for (Isa isa : isas()) {
    Problem<T> problem(3, 19);
    problem.labels = {18, 4, 4};
    problem.logits[18] = static_cast<T>(static_cast<A>(kInf));          // correct
    problem.logits[0] = static_cast<T>(-static_cast<A>(kInf));          // correct
    problem.logits[19 + 4] = static_cast<T>(-static_cast<A>(kInf));     // wrong
    problem.logits[2 * 19 + 7] = static_cast<T>(static_cast<A>(kInf));  // wrong
    auto r = problem.run_both(isa);
    EXPECT_TRUE(std::isfinite(r.loss[0])) << name_of(isa);
    EXPECT_TRUE(r.loss[1] == kInf && r.loss[2] == kInf) << name_of(isa);
    EXPECT_EQ(as_double(r.dlogits[18]), 0);
    EXPECT_EQ(as_double(r.dlogits[0]), 0);
    EXPECT_EQ(as_double(r.dlogits[19 + 4]), -0.25);
    EXPECT_EQ(as_double(r.dlogits[2 * 19 + 7]), 0.25);
  }
}

TYPED_TEST(BinaryCrossEntropy, InvalidLabelGivesNaNInItsRowOnly) {
  using T = TypeParam;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (Isa isa : isas()) {
    for (std::int64_t label : {std::int64_t{-1}, std::int64_t{10}, kFar, -kFar - 1}) {
      for (bool partner : {false, true}) {
        Problem<T> problem(3, 10);
        if (partner) problem.partners = problem.labels;
        if (partner) problem.share.assign(3, 0.5f);
        auto expected = problem.run_both(isa);
        (partner ? problem.partners : problem.labels)[1] = label;
        auto r = problem.run_both(isa);
        EXPECT_TRUE(std::isnan(r.loss[1]));
        EXPECT_EQ(r.loss[0], expected.loss[0]);
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

TYPED_TEST(BinaryCrossEntropy, ScalesWithUpstreamGradient) {
  for (Isa isa : isas()) {
    Problem<TypeParam> problem(5, 37);
    const auto upstream = static_cast<AccumulatorOf<TypeParam>>(-0.75);
    auto with = problem.run_both(isa, &upstream);
    problem.scale *= -0.75;
    EXPECT_TRUE(same_bits(with.dlogits, problem.run_both(isa).dlogits)) << name_of(isa);
  }
}

TYPED_TEST(BinaryCrossEntropy, SameBitsForAnyNumberOfThreads) {
  Problem<TypeParam> problem(203, 1003);
  problem.smoothing = 0.1;
  for (Isa isa : isas()) {
    std::optional<typename Problem<TypeParam>::Result> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      auto r = problem.run_both(isa);
      if (!first) first = r;
      EXPECT_TRUE(same_bits(r.loss, first->loss) && same_bits(r.dlogits, first->dlogits))
          << name_of(isa) << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace dtn::test
