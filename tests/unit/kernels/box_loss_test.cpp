#include "kernels/loss/box_loss.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "dtn/core/check.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(BoxLossForward)
DTN_RUN_ON_EACH_ISA(BoxLossBackward)

namespace dtn::test {
namespace {

// Deltas of one level of B images; labels and targets are slices of those of all levels.
template <class T>
struct Problem {
  using A = AccumulatorOf<T>;
  std::int64_t batch, anchors, first = 2, stride;
  std::vector<T> deltas;             // [B, n, 4]
  std::vector<std::int64_t> labels;  // [B, N]
  std::vector<A> targets;            // [B, N, 4]
  A scale = A(0.25), upstream = A(-0.75);

  Problem(std::int64_t b, std::int64_t n)
      : batch(b),
        anchors(n),
        stride(n + 5),
        deltas(normal_values<T>(b * n * 4, 1)),
        labels(static_cast<std::size_t>(b * stride), 5),
        targets(normal_values<A>(b * stride * 4, 2)) {
    for (std::int64_t i = 0; i < b * n; ++i) {
      labels[place(i)] = i % 3 == 0 ? i % 80 : i % 2 ? -1 : -2;
    }
    deltas[1] = T(A(0.5)), targets[place(0) * 4 + 1] = A(0.5);  // no difference
  }
  std::size_t place(std::int64_t row) const {
    return static_cast<std::size_t>(row / anchors * stride + first + row % anchors);
  }

  struct Result {
    A loss;
    std::vector<T> ddeltas;
  };
  Result run_both(Isa isa) const {
    Result r{A(0), std::vector<T>(deltas.size())};
    const BoxLossInputs inputs{{batch, anchors, labels.data() + first, stride},
                               DTypeOf<T>::value,
                               deltas.data(),
                               targets.data() + 4 * first,
                               &scale};
    run_on(isa, BoxLossForward{inputs, &r.loss});
    run_on(isa, BoxLossBackward{inputs, &upstream, r.ddeltas.data()});
    std::vector<T> in_place = deltas;
    BoxLossBackward backward{inputs, &upstream, in_place.data()};
    backward.deltas = in_place.data();
    run_on(isa, backward);
    EXPECT_TRUE(same_bits(in_place, r.ddeltas));
    return r;
  }
};

template <class T>
class BoxLoss : public ::testing::Test {};
using Types = ::testing::Types<float, bfloat16, double>;
TYPED_TEST_SUITE(BoxLoss, Types);

TYPED_TEST(BoxLoss, MatchesDouble) {
  using A = AccumulatorOf<TypeParam>;
  for (std::int64_t anchors : {1, 37, 5000}) {
    const Problem<TypeParam> problem(2, anchors);
    long double loss = 0;
    std::vector<double> gradient;
    for (std::int64_t i = 0; i < 2 * anchors; ++i) {
      const bool counts = problem.labels[problem.place(i)] >= 0;
      for (std::size_t k = 0; k < 4; ++k) {
        const double d = as_double(problem.deltas[static_cast<std::size_t>(i) * 4 + k]) -
                         static_cast<double>(problem.targets[problem.place(i) * 4 + k]);
        if (counts) loss += std::abs(d);
        gradient.push_back(!counts || d == 0 ? 0 : d > 0 ? -0.1875 : 0.1875);
      }
    }
    EXPECT_EQ(gradient[1], 0);
    for (Isa isa : isas()) {
      const auto r = problem.run_both(isa);
      EXPECT_NEAR(r.loss, 0.25 * loss, 4 * epsilon_of<A>() * loss);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_EQ(as_double(r.ddeltas[i]), gradient[i]) << i;
      }
    }
  }
}

TYPED_TEST(BoxLoss, NaNCountsOnlyWhereAnchorDoes) {
  using T = TypeParam;
  const T nan = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
  for (Isa isa : isas()) {
    Problem<T> problem(1, 6);
    problem.deltas[4] = nan;  // anchor 1 is background
    EXPECT_TRUE(std::isfinite(problem.run_both(isa).loss));
    problem.deltas[3 * 4] = nan;
    const auto r = problem.run_both(isa);
    EXPECT_TRUE(std::isnan(r.loss));
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(as_double(r.ddeltas[i])), i == 12);
  }
}

TYPED_TEST(BoxLoss, SameBitsForAnyNumberOfThreads) {
  const Problem<TypeParam> problem(2, 20011);
  for (Isa isa : isas()) {
    std::optional<typename Problem<TypeParam>::Result> first;
    for (int threads : kThreadCounts) {
      Threads scope(threads);
      auto r = problem.run_both(isa);
      if (!first) first = r;
      EXPECT_TRUE(r.loss == first->loss && same_bits(r.ddeltas, first->ddeltas)) << threads;
    }
  }
}

}  // namespace
}  // namespace dtn::test
