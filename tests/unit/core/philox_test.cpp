#include "dtn/core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace dtn {
namespace {

void expect_words(const Philox4& got, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  EXPECT_EQ(got.v[0], a);
  EXPECT_EQ(got.v[1], b);
  EXPECT_EQ(got.v[2], c);
  EXPECT_EQ(got.v[3], d);
}

// The known-answer vectors of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  expect_words(philox_4x32_10({{0, 0, 0, 0}}, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
               0x9b00dbd8);
  const std::uint32_t ones = 0xffffffff;
  expect_words(philox_4x32_10({{ones, ones, ones, ones}}, ones, ones), 0x408f276d, 0x41c83b0e,
               0xa20bc7c6, 0x6d5451fd);
  expect_words(
      philox_4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Philox, GroupUsesKeyAndCounter) {
  PhiloxKey key{0x299f31d0a4093822u, 0x13198a2e, 0x03707344};
  expect_words(philox_group(key, 0x85a308d3243f6a88u), 0xd16cfe09, 0x94fdcceb, 0x5001e420,
               0x24126ea1);
}

TEST(Philox, ElementsAreWordsOfTheirGroup) {
  PhiloxKey key{12, 3, 4};
  for (std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1} << 34}) {
    for (std::uint64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(philox_u32(key, first + i), philox_group(key, (first + i) / 4).v[i % 4]);
    }
  }
}

TEST(Philox, SeedStreamStepAndElementAllMatter) {
  std::set<std::uint64_t> seen;
  int drawn = 0;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (std::uint32_t stream : {0u, 1u})
      for (std::uint32_t step : {0u, 1u})
        for (std::uint64_t group : {0ull, 1ull, 1ull << 32}) {
          Philox4 w = philox_group({seed, stream, step}, group);
          seen.insert(static_cast<std::uint64_t>(w.v[0]) << 32 | w.v[1]);
          ++drawn;
        }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(drawn));
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_EQ(uniform_from_u32(0), 0.0f);
  EXPECT_EQ(uniform_from_u32(0xff), 0.0f);
  EXPECT_EQ(uniform_from_u32(0x100), 0x1p-24f);
  EXPECT_EQ(uniform_from_u32(0x80000000u), 0.5f);
  EXPECT_EQ(uniform_from_u32(0xffffffffu), 1 - 0x1p-24f);
}

TEST(Philox, UniformMoments) {
  const int n = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    double u = philox_uniform({99, 0, 0}, static_cast<std::uint64_t>(i));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * 0.2887 / 447.2);          // std of u: 1 / sqrt(12)
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * 0.2981 / 447.2);  // std of u^2: sqrt(4 / 45)
}

}  // namespace
}  // namespace dtn
