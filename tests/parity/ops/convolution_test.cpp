// Compares convolutions and poolings of tokens in float32 and bfloat16 with their references in
// float64.
#include "dtn/ops/convolution.h"

#include "primitive_cases.h"

namespace dtn {
namespace {

using test::Input;
using test::Op;
using Inputs = std::vector<Variable>;

void compare(const std::string& name, const Op& fused, const Op& reference,
             const std::vector<Input>& inputs, std::int64_t reduction) {
  auto want = test::run_op(reference, inputs, DType::kFloat64);
  test::expect_close(test::run_op(fused, inputs, DType::kFloat64), want,
                     test::float32_tolerance(reduction) * 1e-6, name + ", float64");
  test::expect_close(test::run_op(fused, inputs, DType::kFloat32), want,
                     test::float32_tolerance(reduction), name + ", float32");
  test::expect_close(test::run_op(fused, inputs, DType::kBFloat16), want,
                     test::bfloat16_tolerance(1) + test::float32_tolerance(reduction),
                     name + ", bfloat16");
}

TEST(ConvolutionParity, Convolutions) {
  struct Size {
    const char* name;
    std::int64_t batch, h, w, channels;
    Shape weight;
    primitive::Conv2d how;
  };
  const Size sizes[] = {
      {"ResNet's 3x3", 2, 14, 14, 64, {64, 64, 3, 3}, {{1, 1}, {1, 1}}},
      {"ResNet's stride", 1, 28, 28, 32, {48, 32, 3, 3}, {{2, 2}, {1, 1}}},
      {"ResNet's shortcut", 2, 14, 14, 32, {64, 32, 1, 1}, {{2, 2}, {0, 0}}},
      {"ResNet's stem", 1, 56, 56, 3, {64, 3, 7, 7}, {{2, 2}, {3, 3}}},
      {"PVTv2's stem", 1, 56, 52, 3, {64, 3, 7, 7}, {{4, 4}, {3, 3}}},
      {"PVT's reduction", 2, 14, 14, 64, {64, 64, 2, 2}, {{2, 2}, {0, 0}}},
      {"RegNetY's groups", 1, 14, 14, 224, {224, 112, 3, 3}, {{1, 1}, {1, 1}, 2}},
      {"PVTv2's depthwise", 2, 14, 14, 128, {128, 1, 3, 3}, {{1, 1}, {1, 1}, 128}},
      {"of a prime width", 1, 1, 197, 13, {7, 13, 1, 3}, {{1, 1}, {0, 1}}}};
  for (const Size& s : sizes) {
    auto on = [&](auto op) {
      return Op([&, op](Context& c, const Inputs& v) {
        return op(c, v[0], s.h, s.w, v[1], v[2], s.how);
      });
    };
    const std::int64_t terms = s.batch * s.h * s.w + s.weight.numel() / s.weight[0] +
                               s.weight[0] / s.how.groups * s.weight[2] * s.weight[3];
    compare(s.name, on(ops::convolution), on(ops::reference::convolution),
            {Input::activation({s.batch, s.h * s.w, s.channels}, 1), Input::weight(s.weight, 2),
             Input::weight({s.weight[0]}, 3)},
            terms);
  }
}

TEST(ConvolutionParity, Pools) {
  const std::pair<const char*, primitive::Pool2d> pools[] = {
      {"ResNet's", {{3, 3}, {2, 2}, {1, 1}}},
      {"halves", {{2, 2}, {2, 2}}},
      {"uneven", {{3, 2}, {1, 3}, {2, 0}}},
      {"inside", {{3, 3}, {2, 1}, {1, 1}, false}}};
  for (const auto& [name, pool] : pools) {
    for (std::int64_t channels : {3, 64, 77}) {
      auto on = [&how = pool](auto op) {
        return Op([op, &how](Context& c, const Inputs& v) { return op(c, v[0], 13, 14, how); });
      };
      const std::vector<Input> inputs = {test::distinct({2, 13 * 14, channels})};
      compare(cat("max_pool ", name), on(ops::max_pool), on(ops::reference::max_pool), inputs, 9);
      compare(cat("avg_pool ", name), on(ops::avg_pool), on(ops::reference::avg_pool), inputs, 9);
    }
  }
}

TEST(ConvolutionParity, Gathers) {
  struct Split {
    std::int64_t h, w, channels, k, stride, padding;
  };
  for (const Split& s : {Split{28, 28, 3, 7, 4, 2}, Split{14, 13, 64, 3, 2, 1},
                         Split{9, 9, 5, 2, 3, 0}, Split{1, 197, 7, 1, 1, 0}}) {
    auto on = [&](auto op) {
      return Op([&, op](Context& c, const Inputs& v) {
        return op(c, v[0], s.h, s.w, s.k, s.stride, s.padding);
      });
    };
    compare(cat("soft_split by ", s.k), on(ops::soft_split), on(ops::reference::soft_split),
            {Input::activation({2, s.h * s.w, s.channels}, 4)}, s.k * s.k);
  }
  for (std::int64_t step : {2, 3}) {
    auto on = [&](auto op) {
      return Op([&, op](Context& c, const Inputs& v) { return op(c, v[0], 14, 13, step); });
    };
    compare(cat("every_nth of ", step), on(ops::every_nth), on(ops::reference::every_nth),
            {Input::activation({2, 14 * 13, 37}, 5)}, 1);
  }
}

TEST(ConvolutionParity, Upsampling) {
  using Grid = std::array<std::int64_t, 2>;
  for (const auto& [fine, coarse] :
       {std::pair<Grid, Grid>{{14, 12}, {7, 6}}, {{25, 42}, {13, 21}}, {{5, 3}, {1, 1}}}) {
    const auto on = [&, fine = fine, coarse = coarse](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], fine, v[1], coarse); });
    };
    compare(cat("upsample_add to ", fine[0], " x ", fine[1]), on(ops::upsample_add),
            on(ops::reference::upsample_add),
            {Input::activation({2, fine[0] * fine[1], 37}, 6),
             Input::activation({2, coarse[0] * coarse[1], 37}, 7)},
            15);
    const auto joined = [&, fine = fine, coarse = coarse](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], coarse, v[1], fine); });
    };
    compare(cat("upsample_join to ", fine[0], " x ", fine[1]), joined(ops::upsample_join),
            joined(ops::reference::upsample_join),
            {Input::activation({2, coarse[0] * coarse[1], 37}, 7),
             Input::activation({2, fine[0] * fine[1], 19}, 8)},
            15);
    const auto alone = [&, fine = fine, coarse = coarse](auto op) {
      return Op([=](Context& c, const Inputs& v) { return op(c, v[0], coarse, {}, fine); });
    };
    compare(cat("upsampled to ", fine[0], " x ", fine[1]), alone(ops::upsample_join),
            alone(ops::reference::upsample_join),
            {Input::activation({2, coarse[0] * coarse[1], 37}, 7)}, 15);
  }
}

// The upsampled channels come first.
TEST(ConvolutionParity, OrderOfJoinedChannels) {
  Context ctx;
  const Variable coarse(Tensor::from(std::vector<double>{1, 2}, {1, 2, 1}));
  const Variable fine(Tensor::from(std::vector<double>{10, 20, 30, 40, 50, 60, 70, 80}, {1, 8, 1}));
  EXPECT_EQ(test::doubles(ops::upsample_join(ctx, coarse, {1, 2}, fine, {2, 4}).value()),
            (std::vector<double>{1, 10, 1, 20, 2, 30, 2, 40, 1, 50, 1, 60, 2, 70, 2, 80}));
}

TEST(ConvolutionParity, ImageTokens) {
  const Tensor images = test::representable(test::random_tensor({2, 3, 9, 7}, 6));
  Context ctx;
  const Tensor want = ops::reference::image_tokens(ctx, images, DType::kFloat64).value();
  EXPECT_EQ(want.shape(), Shape({2, 63, 3}));
  EXPECT_EQ(want.data<double>()[(7 * 2 + 4) * 3 + 1], images.data<double>()[(1 * 9 + 2) * 7 + 4]);
  EXPECT_TRUE(test::same_bits(ops::image_tokens(ctx, images, DType::kFloat64).value(), want));
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor got = ops::image_tokens(ctx, test::as(images, DType::kFloat32), dtype).value();
    EXPECT_EQ(test::doubles(got), test::doubles(want)) << name_of(dtype);
  }
}

TEST(ConvolutionParity, RejectsInvalidArguments) {
  Context ctx;
  const Variable x(test::random_tensor({2, 12, 4}, 1)), w(test::random_tensor({6, 4, 3, 3}, 2));
  EXPECT_NO_THROW(ops::convolution(ctx, x, 3, 4, w, {}));
  EXPECT_THROW(ops::convolution(ctx, x, 4, 4, w, {}), Error) << "12 tokens on 16 places";
  EXPECT_THROW(ops::convolution(ctx, x, 2, 6, w, {}), Error) << "3 rows of a kernel on 2";
  EXPECT_THROW(ops::convolution(ctx, x, 3, 4, w, {}, {.groups = 2}), Error);
  EXPECT_THROW(ops::convolution(ctx, x, 3, 4, w, {}, {.stride = {0, 1}}), Error);
  EXPECT_THROW(ops::convolution(ctx, x, 3, 4, w, Variable(test::random_tensor({4}, 3))), Error);
  EXPECT_THROW(ops::max_pool(ctx, x, 3, 4, {{2, 2}, {2, 2}, {2, 0}}), Error) << "only padding";
  EXPECT_THROW(ops::every_nth(ctx, x, 3, 4, 0), Error);
  EXPECT_THROW(ops::upsample_add(ctx, x, {3, 4}, x, {4, 3}), Error) << "the coarse grid is higher";
  EXPECT_THROW(ops::upsample_add(ctx, x, {3, 4}, x, {2, 2}), Error);
  EXPECT_THROW(ops::upsample_join(ctx, x, {4, 3}, {}, {3, 4}), Error) << "higher than the fine";
  EXPECT_THROW(ops::upsample_join(ctx, x, {3, 4}, x, {6, 8}), Error) << "12 tokens on 48 places";
  EXPECT_THROW(ops::soft_split(ctx, x, 3, 4, 9, 1, 2), Error);
  EXPECT_THROW(ops::image_tokens(ctx, x.value(), DType::kFloat64), Error);
}

}  // namespace
}  // namespace dtn
