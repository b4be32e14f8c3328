#include "kernels/norm/weight_norm.h"

#include <gtest/gtest.h>

#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(WeightNormScale)
DTN_RUN_ON_EACH_ISA(WeightNormBackward)

namespace dtn::test {
namespace {

template <class T>
class WeightNorm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WeightNorm, Types);

TYPED_TEST(WeightNorm, MatchesFloat64) {
  using T = TypeParam;
  for (std::int64_t columns : {1, 7, 256, 1003}) {
    constexpr std::int64_t kRows = 13;
    const auto direction = normal_values<T>(kRows * columns, 1), gain = normal_values<T>(kRows, 2);
    const auto sums = normal_values<T>(kRows, 3);
    const auto dgain = normal_values<T>(kRows, 4);
    const auto ddirection = normal_values<T>(kRows * columns, 5);
    const double eps = epsilon_of<T>() * (std::sqrt(static_cast<double>(columns)) + 8);
    for (Isa isa : isas()) {
      std::vector<T> scale(gain.size()), inverse(gain.size()), dg = dgain, dv = ddirection;
      run_on(isa, WeightNormScale{DTypeOf<T>::value, kRows, columns, direction.data(), gain.data(),
                                  scale.data(), inverse.data()});
      run_on(isa,
             WeightNormBackward{DTypeOf<T>::value, kRows, columns, direction.data(), gain.data(),
                                inverse.data(), sums.data(), dg.data(), dv.data()});
      for (std::size_t k = 0; k < gain.size(); ++k) {
        const auto row = k * static_cast<std::size_t>(columns);
        double squares = 0;
        for (std::int64_t c = 0; c < columns; ++c) {
          const double v = direction[row + static_cast<std::size_t>(c)];
          squares += v * v;
        }
        const double length = std::sqrt(squares);
        ASSERT_NEAR(inverse[k] * length, 1, eps);
        ASSERT_NEAR(scale[k], gain[k] / length, eps * std::abs(gain[k]) / length);
        const double step = sums[k] / length;
        ASSERT_NEAR(dg[k], dgain[k] + step, eps * (std::abs(dgain[k]) + std::abs(step)));
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::size_t i = row + static_cast<std::size_t>(c);
          const double part = direction[i] * step * gain[k] / squares;
          ASSERT_NEAR(dv[i], ddirection[i] - part,
                      eps * (std::abs(ddirection[i]) + std::abs(part)));
        }
      }
    }
  }
}

// A null output is left out.
TYPED_TEST(WeightNorm, WritesWantedOutputsOnly) {
  using T = TypeParam;
  const auto direction = normal_values<T>(3 * 5, 1), gain = normal_values<T>(3, 2);
  for (Isa isa : isas()) {
    std::vector<T> scale(3), inverse(3), dg(3), dv(15);
    const WeightNormScale forward{DTypeOf<T>::value, 3,           5,
                                  direction.data(),  gain.data(), scale.data()};
    run_on(isa, forward);
    EXPECT_NE(scale[2], 0);
    inverse.assign(3, 1);
    WeightNormBackward backward{DTypeOf<T>::value, 3,          5, direction.data(), gain.data(),
                                inverse.data(),    gain.data()};
    backward.dgain = dg.data();
    run_on(isa, backward);
    backward.dgain = nullptr;
    backward.ddirection = dv.data();
    run_on(isa, backward);
    EXPECT_EQ(dg, gain);
    EXPECT_NE(dv[14], 0);
  }
}

}  // namespace
}  // namespace dtn::test
