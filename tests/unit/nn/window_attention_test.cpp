// Attention in windows that do not fill the grid.
#include "dtn/nn/window_attention.h"

#include "dtn/nn/observer.h"
#include "tensors.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

using std::int64_t;
using test::random_tensor;

constexpr int64_t kChannels = 6, kBatch = 2;

// The module on tokens of a grid, and the gradient of the tokens.
struct Result {
  Tensor y, dx;
};
Result run(const WindowAttention& attention, const Tensor& x, const TokenGrid& grid,
           const Tensor& dy) {
  Tape tape;
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.tape = &tape;
  const Variable leaf(x.clone(), true);
  const Variable y = attention.mix(ctx, leaf, grid);
  tape.backward(y, dy);
  return {y.value(), leaf.grad()};
}

// Copies tokens [B, T, C] of a grid to or from the corner of a larger one of zeros.
Tensor moved(const Tensor& x, const TokenGrid& from, const TokenGrid& to) {
  Tensor y = Tensor::zeros({kBatch, to.height * to.width, kChannels}, x.dtype());
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t i = 0; i < std::min(from.height, to.height); ++i) {
      for (int64_t j = 0; j < std::min(from.width, to.width); ++j) {
        const double* source =
            x.data<double>() + ((b * from.height + i) * from.width + j) * kChannels;
        std::copy_n(source, kChannels,
                    y.data<double>() + ((b * to.height + i) * to.width + j) * kChannels);
      }
    }
  }
  return y;
}

TEST(WindowAttention, FillsWindowsWithZeros) {
  for (const int64_t shift : {0, 2}) {
    ParameterStore store;
    const WindowAttention attention(
        Scope(store), {.channels = kChannels, .heads = 2, .window = 4, .shift = shift});
    store.allocate(DType::kFloat64);
    store.initialize(1);
    test::perturb(store);
    for (const auto& [grid, filled] :
         {std::pair<TokenGrid, TokenGrid>{{5, 10}, {8, 12}}, {{8, 9}, {8, 12}}, {{6, 4}, {8, 4}}}) {
      SCOPED_TRACE(cat(grid.height, " x ", grid.width, ", shift ", shift));
      const Shape shape{kBatch, grid.tokens(), kChannels};
      const Tensor x = random_tensor(shape, 1), dy = random_tensor(shape, 2);
      const Result got = run(attention, x, grid, dy);
      const Result want = run(attention, moved(x, grid, filled), filled, moved(dy, grid, filled));
      EXPECT_TRUE(test::same_bits(got.y, moved(want.y, filled, grid)));
      EXPECT_TRUE(test::same_bits(got.dx, moved(want.dx, filled, grid)));
    }
  }
}

// The oldest grids of many are computed again.
TEST(WindowAttention, TakesManyGrids) {
  ParameterStore store;
  const WindowAttention attention(Scope(store), {.channels = kChannels, .heads = 2, .window = 2});
  store.allocate(DType::kFloat64);
  store.initialize(1);
  const auto values = [&](int64_t width) {
    const Tensor x = random_tensor({kBatch, 3 * width, kChannels}, 1);
    return run(attention, x, {3, width}, x).y;
  };
  const Tensor first = values(2);
  for (int64_t width = 3; width < 60; ++width) EXPECT_EQ(values(width).dim(1), 3 * width);
  EXPECT_TRUE(test::same_bits(values(2), first));
}

// The zeros that fill windows are no tokens of the model.
TEST(WindowAttention, ShowsObserversFilledGridsOnly) {
  struct Counter : Observer {
    void attention(const AttentionView& view) override { grids.push_back(view.query_grid); }
    std::vector<TokenGrid> grids;
  } counter;
  ParameterStore store;
  const WindowAttention attention(Scope(store), {.channels = kChannels, .heads = 2, .window = 2});
  store.allocate(DType::kFloat64);
  store.initialize(1);
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.observer = &counter;
  for (const TokenGrid& grid : {TokenGrid{3, 4}, TokenGrid{4, 6}}) {
    attention.mix(ctx, Variable(random_tensor({kBatch, grid.tokens(), kChannels}, 1)), grid);
  }
  EXPECT_EQ(counter.grids, (std::vector<TokenGrid>{{4, 6}}));
}

TEST(WindowAttention, RefusesTokensBeforeTheGrid) {
  ParameterStore store;
  const WindowAttention attention(Scope(store), {.channels = kChannels, .heads = 2, .window = 2});
  EXPECT_EQ(attention.grid_problem({5, 7}), "");
  EXPECT_NE(attention.grid_problem({4, 4, 1}), "");
}

}  // namespace
}  // namespace dtn
