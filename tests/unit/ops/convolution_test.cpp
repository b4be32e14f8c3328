// Token convolutions beyond their values: grids and multiply-adds.
#include "dtn/ops/convolution.h"

#include "core/meta_device.h"
#include "tensors.h"

namespace dtn {
namespace {

TEST(ConvolvedGrid, RoundsDown) {
  using Grid = std::array<std::int64_t, 2>;
  EXPECT_EQ(ops::convolved_grid({224, 150}, {7, 7}, {4, 4}, {3, 3}), (Grid{56, 38}));
  EXPECT_EQ(ops::convolved_grid({38, 19}, {8, 8}, {8, 8}, {0, 0}), (Grid{4, 2}));
  EXPECT_EQ(ops::convolved_grid({7, 1}, {3, 1}, {2, 1}, {1, 0}), (Grid{4, 1}));
  EXPECT_THROW(ops::convolved_grid({2, 9}, {3, 3}, {1, 1}, {0, 0}), Error);
  EXPECT_THROW(ops::convolved_grid({9, 9}, {3, 3}, {1, 0}, {0, 0}), Error);
  EXPECT_THROW(ops::convolved_grid({9, 9}, {0, 3}, {1, 1}, {0, 0}), Error);
}

// ResNet-50's stem and one of its 3 x 3 convolutions, for one image each.
TEST(Convolution, CountsMultiplyAdds) {
  Context ctx;
  meta_queue().take_work();
  auto empty = [](const Shape& shape) {
    return Variable(Tensor::empty(shape, DType::kFloat32, kMeta), true);
  };
  auto work_of = [&](std::int64_t side, std::int64_t in, const Shape& weight,
                     const primitive::Conv2d& how) {
    const Variable y = ops::convolution(ctx, empty({1, side * side, in}), side, side, empty(weight),
                                        empty({weight[0]}), how);
    EXPECT_EQ(y.shape()[2], weight[0]);
    return meta_queue().take_work().multiply_adds;
  };
  EXPECT_EQ(work_of(224, 3, {64, 3, 7, 7}, {{2, 2}, {3, 3}}), 118013952);
  EXPECT_EQ(work_of(56, 64, {64, 64, 3, 3}, {{1, 1}, {1, 1}}), 115605504);
  EXPECT_EQ(work_of(56, 64, {256, 64, 1, 1}, {}), 51380224);
  EXPECT_EQ(work_of(56, 512, {512, 1, 3, 3}, {{1, 1}, {1, 1}, 512}), 14450688);
  EXPECT_EQ(work_of(14, 224, {224, 112, 3, 3}, {{1, 1}, {1, 1}, 2}), 14 * 14 * 224 * 112 * 9);

  const Variable x = empty({1, 56 * 56, 64});
  EXPECT_EQ(ops::max_pool(ctx, x, 56, 56, {{3, 3}, {2, 2}, {1, 1}}).shape(), Shape({1, 784, 64}));
  EXPECT_EQ(ops::soft_split(ctx, x, 56, 56, 3, 2, 1).shape(), Shape({1, 784, 576}));
  EXPECT_EQ(ops::every_nth(ctx, x, 56, 56, 3).shape(), Shape({1, 361, 64}));
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 0);
}

// Each of the two gradients costs as much as the result.
TEST(Convolution, CountsMultiplyAddsOfGradients) {
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  meta_queue().take_work();
  auto empty = [](const Shape& shape) {
    return Variable(Tensor::empty(shape, DType::kFloat32, kMeta), true);
  };
  const Variable x = empty({2, 49, 8}), w = empty({16, 8, 3, 3});
  const Variable y = ops::convolution(ctx, x, 7, 7, w, {}, {{2, 2}, {1, 1}});
  const double forward = meta_queue().take_work().multiply_adds;
  EXPECT_EQ(forward, 2 * 16 * 16 * 8 * 9);
  tape.backward(y, Tensor::empty(y.shape(), DType::kFloat32, kMeta));
  EXPECT_EQ(meta_queue().take_work().multiply_adds, 2 * forward);
}

}  // namespace
}  // namespace dtn
