#include "dtn/core/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Shape, Basics) {
  Shape s{16, 196, 432};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s[0], 16);
  EXPECT_EQ(s[-1], 432);
  EXPECT_EQ(s.numel(), 16 * 196 * 432);
  EXPECT_EQ(to_string(s), "[16, 196, 432]");
  s[-2] = 197;
  EXPECT_EQ(s, (Shape{16, 197, 432}));
}

TEST(Shape, ScalarAndEmpty) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ((Shape{3, 0, 5}.numel()), 0);
}

TEST(Shape, EqualityComparesRankAndExtents) {
  EXPECT_FALSE((Shape{2, 3} == Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3} == Shape{2, 3, 1}));
  EXPECT_FALSE((Shape{} == Shape{0}));  // unused extents are zero too
}

TEST(Shape, RejectsNegativeExtentsAndTooManyDimensions) {
  EXPECT_THROW((Shape{2, -1}), Error);
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  std::vector<std::int64_t> many(1000, 1);
  EXPECT_THROW(Shape{std::span<const std::int64_t>(many)}, Error);
}

TEST(Shape, NumelOverflowIsAnError) {
  EXPECT_EQ(Shape{kMax}.numel(), kMax);
  EXPECT_THROW((Shape{kMax, 2}.numel()), Error);
  EXPECT_THROW((Shape{1ll << 32, 1ll << 31}.numel()), Error);
  try {
    Shape{kMax, 2}.numel();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[9223372036854775807, 2]"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace dtn
