#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "kernels/norm/channel_moments.h"
#include "unit/kernels/each_isa.h"

DTN_RUN_ON_EACH_ISA(PackMoments)
DTN_RUN_ON_EACH_ISA(CombineMoments)

namespace dtn::test {
namespace {

constexpr std::int64_t kChannels = 19, kWidth = 2 * kChannels + 1;

// The moments that each rank finds in its rows, and the moments of all rows.
struct Ranks {
  std::vector<std::int64_t> rows;
  std::vector<std::vector<double>> mean, variance;  // [rank][channel]
  std::vector<double> whole_mean, whole_variance;   // [channel]

  Ranks(std::vector<std::int64_t> shares, double around, double std) : rows(std::move(shares)) {
    std::vector<std::vector<double>> values;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      // The ranks' means differ by as much as the rows of a rank do.
      values.push_back(normal_values<double>(rows[r] * kChannels, static_cast<unsigned>(r + 1),
                                             around + static_cast<double>(r) * std, std));
      measure(values[r], mean.emplace_back(), variance.emplace_back());
    }
    std::vector<double> all;
    for (const auto& v : values) all.insert(all.end(), v.begin(), v.end());
    measure(all, whole_mean, whole_variance);
  }

  static void measure(const std::vector<double>& x, std::vector<double>& m,
                      std::vector<double>& v) {
    const std::size_t channels = kChannels, n = x.size() / channels;
    std::vector<long double> sums(channels), squares(channels);
    for (std::size_t i = 0; i < x.size(); ++i) sums[i % channels] += x[i];
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double d = x[i] - sums[i % channels] / static_cast<long double>(n);
      squares[i % channels] += d * d;
    }
    m.clear(), v.clear();
    for (std::size_t c = 0; c < channels; ++c) {
      m.push_back(static_cast<double>(sums[c] / static_cast<long double>(n)));
      v.push_back(static_cast<double>(squares[c] / static_cast<long double>(n)));
    }
  }
};

template <class A>
std::vector<A> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Means are pairs of A, as in BatchNorm (two_numbers), or float64, as in Switchable normalization.
template <class A>
void check(Isa isa, const Ranks& ranks, bool two_numbers) {
  const auto size = static_cast<std::int64_t>(ranks.rows.size());
  const DType dtype = DTypeOf<A>::value;
  std::vector<double> packed(static_cast<std::size_t>(size * kWidth), NAN);
  for (std::size_t r = 0; r < ranks.rows.size(); ++r) {
    const std::vector<A> mean = rounded<A>(ranks.mean[r]), variance = rounded<A>(ranks.variance[r]);
    std::vector<A> rest;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      rest.push_back(static_cast<A>(ranks.mean[r][c] - static_cast<double>(mean[c])));
    }
    const void* wide = ranks.mean[r].data();
    run_on(isa, PackMoments{dtype, kChannels, ranks.rows[r], two_numbers ? mean.data() : wide,
                            two_numbers ? rest.data() : nullptr, variance.data(),
                            packed.data() + static_cast<std::int64_t>(r) * kWidth});
  }
  std::vector<A> mean(kChannels, A(9)), rest(kChannels, A(9)), variance(kChannels, A(9));
  std::vector<double> wide(kChannels, 9);
  run_on(isa, CombineMoments{dtype, kChannels, size, packed.data(),
                             two_numbers ? static_cast<void*>(mean.data()) : wide.data(),
                             two_numbers ? rest.data() : nullptr, variance.data()});
  // A mean of two numbers has twice the precision of A, at most that of the packed float64 value. A
  // variance is rounded once when packed and once at the end. The part that comes from differences
  // between the means has the rounding of the means.
  const double u = epsilon_of<A>() / 2, apart = static_cast<double>(size) + 1;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double scale = 1 + std::abs(ranks.whole_mean[c]);
    const double got = two_numbers ? static_cast<double>(mean[c]) + rest[c] : wide[c];
    const double of_mean = two_numbers ? std::max(u * u, 0x1p-52) : 0x1p-52;
    EXPECT_NEAR(got, ranks.whole_mean[c], 4 * of_mean * scale) << c;
    EXPECT_NEAR(variance[c], ranks.whole_variance[c],
                (3 * u + 0x1p-50) * ranks.whole_variance[c] + 4 * apart * 0x1p-52 * scale)
        << c;
    if (two_numbers) {
      EXPECT_LE(std::abs(rest[c]), u * std::abs(mean[c]));
    }
  }
}

TEST(CombineMoments, MatchMomentsOfAllRows) {
  const std::vector<std::vector<std::int64_t>> shares = {{5}, {1, 1}, {196, 1}, {1, 40, 7, 300}};
  for (Isa isa : isas()) {
    for (const auto& rows : shares) {
      for (double around : {0.0, 1e3, -1e6}) {
        SCOPED_TRACE(cat(name_of(isa), ", ", rows.size(), " ranks around ", around));
        const Ranks ranks(rows, around, 1);
        for (bool two_numbers : {true, false}) {
          check<float>(isa, ranks, two_numbers);
          check<double>(isa, ranks, two_numbers);
        }
      }
    }
  }
}

// More rows than float32 represents exactly.
TEST(CombineMoments, CountIsExactBeyondFloat32) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 40) + 1;
  const float mean = 0, rest = 0, variance = 1;
  double packed[2][3];
  for (Isa isa : isas()) {
    run_on(isa, PackMoments{DType::kFloat32, 1, kRows, &mean, &rest, &variance, packed[0]});
    EXPECT_EQ(packed[0][2], static_cast<double>(kRows));
  }
}

TEST(CombineMoments, NanPropagates) {
  for (Isa isa : isas()) {
    const double packed[2][3] = {{1, 1, 4}, {NAN, 1, 4}};
    float mean = 0, rest = 0, variance = 0;
    run_on(isa, CombineMoments{DType::kFloat32, 1, 2, packed[0], &mean, &rest, &variance});
    EXPECT_TRUE(std::isnan(mean) && std::isnan(variance));
  }
}

TEST(CombineMoments, RejectsBFloat16) {
  double value = 0;
  EXPECT_THROW(
      run(cpu_queue(), PackMoments{DType::kBFloat16, 1, 1, &value, &value, &value, &value}), Error);
  EXPECT_THROW(
      run(cpu_queue(), CombineMoments{DType::kBFloat16, 1, 1, &value, &value, &value, &value}),
      Error);
}

}  // namespace
}  // namespace dtn::test
