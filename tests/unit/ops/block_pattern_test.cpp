// Block patterns: exactly those of BigBird.
#include <gtest/gtest.h>

#include <set>

#include "dtn/ops/sparse_attention.h"
#include "tensors.h"

namespace dtn {
namespace {

using ops::BlockPattern;
using ops::SparseVariant;
using std::int64_t;

std::set<int64_t> seen(const BlockPattern& p, int64_t head, int64_t row) {
  const int64_t width = p.options.random + 5;
  const auto* at = p.seen.data<int64_t>() + (head * p.blocks + row) * width;
  std::set<int64_t> blocks;
  for (int64_t i = 0; i < width && at[i] >= 0; ++i) {
    EXPECT_TRUE(i == 0 || at[i - 1] < at[i]) << "not ascending";
    blocks.insert(at[i]);
  }
  return blocks;
}

std::shared_ptr<const BlockPattern> long_pattern(int64_t layer) {
  return BlockPattern::make({.tokens = 2001, .heads = 8, .layer = layer});
}

TEST(BlockPattern, MatchesReleasedCode) {
  const auto first = long_pattern(0), sixth = long_pattern(5);
  EXPECT_EQ(first->blocks, 32);
  using Blocks = std::set<int64_t>;
  EXPECT_EQ(seen(*first, 0, 1), (Blocks{0, 1, 2, 31, 9, 14, 7}));
  EXPECT_EQ(seen(*first, 0, 2), (Blocks{0, 1, 2, 3, 31, 9, 6, 7}));
  EXPECT_EQ(seen(*first, 0, 3), (Blocks{0, 2, 3, 4, 31, 10, 5, 14}));
  EXPECT_EQ(seen(*sixth, 7, 30), (Blocks{0, 29, 30, 31, 10, 2, 11}));
}

TEST(BlockPattern, RandomBlocksDifferFromFixedBlocks) {
  for (int64_t tokens : {2001, 1024, 1025, 512, 700}) {
    const auto p = BlockPattern::make({.tokens = tokens, .heads = 4, .layer = 3});
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 1; i < p->blocks - 1; ++i) {
        const bool at_an_end = i == 1 || i == p->blocks - 2;
        EXPECT_EQ(seen(*p, h, i).size(), at_an_end ? 7u : 8u) << tokens << " row " << i;
        EXPECT_TRUE(seen(*p, h, i).count(i));
        EXPECT_LT(*seen(*p, h, i).rbegin(), p->blocks);
      }
    }
  }
}

TEST(BlockPattern, HeadsAndLayersDiffer) {
  const auto a = long_pattern(0), b = long_pattern(1);
  EXPECT_FALSE(test::same_bits(a->seen, b->seen));
  EXPECT_NE(seen(*a, 0, 10), seen(*a, 1, 10));
}

TEST(BlockPattern, PadsToWholeBlocks) {
  BlockPattern::Options o{.tokens = 2001, .heads = 1};
  EXPECT_EQ(BlockPattern::positions(o), 2048);
  o.tokens = 2048;
  EXPECT_EQ(BlockPattern::positions(o), 2048);
  o.variant = SparseVariant::kLra;
  EXPECT_EQ(BlockPattern::positions(o), 2112);
}

TEST(BlockPattern, IsDenseWithFewBlocks) {
  BlockPattern::Options o{.tokens = 7 * 64, .heads = 1};
  EXPECT_TRUE(BlockPattern::is_dense(o));
  EXPECT_FALSE(BlockPattern::make(o)->seen.defined());
  o.tokens += 1;
  EXPECT_FALSE(BlockPattern::is_dense(o));
  EXPECT_TRUE(BlockPattern::make(o)->seen.defined());
  EXPECT_THROW(BlockPattern::make({.tokens = 2001, .heads = 1, .block = 0}), Error);
  EXPECT_THROW(BlockPattern::make({.tokens = 2049, .heads = 1, .block = 256}), Error)
      << "row n - 2 has no candidates below block 4";
}

}  // namespace
}  // namespace dtn
