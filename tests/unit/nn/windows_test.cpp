// Windows of a grid against Swin's definition, and tables of biases.
#include "dtn/nn/windows.h"

#include <cmath>

#include "grouped_attention_cases.h"
#include "tensors.h"

namespace dtn {
namespace {

using std::int64_t;
using test::random_tensor;

int64_t at(const Tensor& t, int64_t i) { return t.data<int64_t>()[i]; }

// The numbers of regions may differ, but the same tokens must share a region.
void expect_same_windows(int64_t grid_h, int64_t grid_w, int64_t window, int64_t shift) {
  SCOPED_TRACE(cat(grid_h, " x ", grid_w, " by ", window, " shift ", shift));
  const auto got = shifted_windows(grid_h, grid_w, window, shift, kCpu);
  const test::Windows want = test::windows_of(grid_h, grid_w, window, shift);
  const int64_t size = window * window;
  ASSERT_EQ(got->tokens.shape(), Shape({grid_h * grid_w / size, size}));
  ASSERT_EQ(got->has_regions(), shift > 0);
  int64_t apart = 0;
  for (int64_t i = 0; i < grid_h * grid_w; ++i) {
    ASSERT_EQ(at(got->tokens, i), want.tokens[static_cast<std::size_t>(i)]) << i;
    ASSERT_EQ(at(got->places, at(got->tokens, i)), i);
    for (int64_t j = i / size * size; shift > 0 && j < (i / size + 1) * size; ++j) {
      const float* regions = got->regions.data<float>();
      const bool differ =
          want.regions[static_cast<std::size_t>(i)] != want.regions[static_cast<std::size_t>(j)];
      ASSERT_EQ(regions[i] != regions[j], differ) << i << " " << j;
      apart += differ;
    }
  }
  EXPECT_EQ(apart > 0, shift > 0);
}

TEST(Windows, MatchSwin) {
  expect_same_windows(14, 14, 7, 3);
  expect_same_windows(14, 21, 7, 3);
  expect_same_windows(14, 14, 7, 0);
  expect_same_windows(7, 7, 7, 0);
  expect_same_windows(12, 8, 4, 2);
  expect_same_windows(6, 4, 2, 1);
}

TEST(Windows, RejectIndivisibleGrids) {
  EXPECT_THROW(shifted_windows(14, 15, 7, 0, kCpu), Error);
  EXPECT_THROW(shifted_windows(15, 14, 7, 3, kCpu), Error);
  EXPECT_THROW(shifted_windows(14, 14, 7, 7, kCpu), Error);
  EXPECT_THROW(shifted_windows(14, 14, 7, -1, kCpu), Error);
  EXPECT_THROW(shifted_windows(14, 14, 0, 0, kCpu), Error);
}

// The index is of query minus key; published files of Swin contain it.
TEST(BiasTables, WindowIndex) {
  const Tensor index = window_bias_index(7, 7, kCpu);
  ASSERT_EQ(index.numel(), 49 * 49);
  EXPECT_EQ(at(index, 0), 6 * 13 + 6);
  EXPECT_EQ(at(index, 1), 6 * 13 + 5) << "a key to the right";
  EXPECT_EQ(at(index, 7), 5 * 13 + 6) << "a key below";
  EXPECT_EQ(at(index, 48), 0) << "first to last";
  EXPECT_EQ(at(index, 48 * 49), 168) << "last to first";
  EXPECT_EQ(at(index, 8 * 49 + 8), 6 * 13 + 6) << "itself";
}

TEST(BiasTables, DistanceIndex) {
  const Tensor index = distance_bias_index(3, 4, 1, kCpu);
  ASSERT_EQ(index.numel(), 12 * 12);
  EXPECT_EQ(at(index, 0), 0);
  EXPECT_EQ(at(index, 7), 4 + 3);
  EXPECT_EQ(at(index, 7 * 12), 4 + 3) << "mirror images share an entry";
  EXPECT_EQ(at(index, 6 * 12 + 9), 4 + 1);

  const Tensor shrinking = distance_bias_index(7, 7, 2, kCpu);  // queries 0 2 4 6 of each side
  ASSERT_EQ(shrinking.numel(), 16 * 49);
  EXPECT_EQ(at(shrinking, 0), 0);
  EXPECT_EQ(at(shrinking, 1 * 49 + 0), 2);
  EXPECT_EQ(at(shrinking, 4 * 49 + 0), 2 * 7);
  EXPECT_EQ(at(shrinking, 15 * 49 + 0), 6 * 7 + 6);
  EXPECT_EQ(at(shrinking, 15 * 49 + 48), 0);
  EXPECT_EQ(distance_bias_index(14, 14, 2, kCpu).numel(), 49 * 196);
}

// Checks the bias of all scores, and the gradient of a table: each entry's gradient is the sum over
// the places that read it, with the same bits for any number of threads.
template <class Read>
void expect_table(const Tensor& index, int64_t queries, const Shape& table_shape, bool rows,
                  Read&& read) {
  const Tensor table = random_tensor(table_shape, 1);
  const int64_t heads = rows ? table_shape[1] : table_shape[0];
  const int64_t entries = rows ? table_shape[0] : table_shape[1], keys = index.numel() / queries;
  auto entry = [&](int64_t h, int64_t e) { return rows ? e * heads + h : h * entries + e; };
  Tensor first;
  for (int threads : test::kThreadCounts) {
    test::Threads scope(threads);
    const Variable leaf(table.clone(), true);
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable bias = read(ctx, leaf);
    ASSERT_EQ(bias.shape(), Shape({heads, queries, keys}));
    const Tensor dbias = random_tensor(bias.shape(), 2);
    std::vector<double> want(static_cast<std::size_t>(table.numel()));
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < index.numel(); ++i) {
        const int64_t e = entry(h, at(index, i)), place = h * index.numel() + i;
        ASSERT_EQ(bias.value().data<double>()[place], table.data<double>()[e]);
        want[static_cast<std::size_t>(e)] += dbias.data<double>()[place];
      }
    }
    tape.backward(bias, dbias);
    const Tensor grad = leaf.grad();
    EXPECT_LE(test::max_abs_difference(test::doubles(grad), want), 1e-12);
    if (!first.defined()) first = grad;
    EXPECT_TRUE(test::same_bits(first, grad)) << threads << " threads";
  }
}

TEST(BiasTables, ReadByRowsOrColumns) {
  const Tensor window = window_bias_index(7, 7, kCpu);
  expect_table(window, 49, {169, 3}, true, [&](Context& ctx, const Variable& table) {
    return bias_from_rows(ctx, table, window, 49);
  });
  const Tensor distances = distance_bias_index(7, 7, 2, kCpu);
  expect_table(distances, 16, {8, 49}, false, [&](Context& ctx, const Variable& table) {
    return bias_from_columns(ctx, table, distances, 16);
  });
}

}  // namespace
}  // namespace dtn
