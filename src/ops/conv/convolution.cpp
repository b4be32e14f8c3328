#include "dtn/ops/convolution.h"

#include "kernels/conv/convolution.h"
#include "kernels/conv/pool_tokens.h"
#include "kernels/conv/soft_split.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::ops {
namespace {

void check_grid(const char* op, const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid_h * grid_w, op, ": input ",
            to_string(x.shape()), " is not [B, ", grid_h, " x ", grid_w, ", C]");
}

Window window_on(std::int64_t grid_h, std::int64_t grid_w,
                 const std::array<std::int64_t, 2>& kernel,
                 const std::array<std::int64_t, 2>& stride,
                 const std::array<std::int64_t, 2>& padding) {
  const auto [out_h, out_w] = convolved_grid({grid_h, grid_w}, kernel, stride, padding);
  return {grid_h,    grid_w,    out_h,     out_w,      kernel[0],
          kernel[1], stride[0], stride[1], padding[0], padding[1]};
}

ConvolutionShape shape_of(const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                          const Variable& weight, const Variable& bias,
                          const primitive::Conv2d& how) {
  check_grid("convolution", x, grid_h, grid_w);
  const Shape& w = weight.shape();
  DTN_CHECK(w.rank() == 4, "convolution: weight ", to_string(w), " is not [O, C, kh, kw]");
  DTN_CHECK(how.groups > 0 && x.dim(2) % how.groups == 0 && w[0] % how.groups == 0 &&
                w[1] == x.dim(2) / how.groups,
            "convolution: weight ", to_string(w), " does not fit input ", to_string(x.shape()),
            " in ", how.groups, " groups");
  DTN_CHECK(weight.device() == x.device(), "convolution: weight on ", to_string(weight.device()),
            ", input on ", to_string(x.device()));
  DTN_CHECK(!bias.defined() || bias.shape() == Shape{w[0]}, "convolution: bias ",
            to_string(bias.shape()), " is not [", w[0], "]");
  const Window window = window_on(grid_h, grid_w, {w[2], w[3]}, how.stride, how.padding);
  return {x.dtype(), window, x.dim(0), x.dim(2), w[0], how.groups};
}

Variable pool(Context& ctx, const char* op, const Variable& x, std::int64_t grid_h,
              std::int64_t grid_w, const primitive::Pool2d& how, WindowPooling kind) {
  check_grid(op, x, grid_h, grid_w);
  const Window w = window_on(grid_h, grid_w, how.kernel, how.stride, how.padding);
  DTN_CHECK(w.pad_h < w.kernel_h && w.pad_w < w.kernel_w, op, ": padding ", w.pad_h, " x ", w.pad_w,
            " must be smaller than the window, ", w.kernel_h, " x ", w.kernel_w);
  const std::int64_t batch = x.dim(0), channels = x.dim(2);
  Tensor y = Tensor::empty({batch, w.out_h * w.out_w, channels}, x.dtype(), x.device());
  run_on(x.device(),
         PoolTokensForward{x.dtype(), kind, w, batch, channels, x.value().raw(), y.raw()});
  const Tensor saved = kind == WindowPooling::kMax ? x.value() : Tensor();
  return ctx.record(op, y, {&x}, [=, shape = x.shape(), to_x = x.sink()](const Tensor& dy) {
    Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
    run_on(dy.device(),
           PoolTokensBackward{dy.dtype(), kind, w, batch, channels,
                              saved.defined() ? saved.raw() : nullptr, dy.raw(), dx.raw()});
    to_x->accumulate(std::move(dx));
  });
}

}  // namespace

std::array<std::int64_t, 2> convolved_grid(const std::array<std::int64_t, 2>& grid,
                                           const std::array<std::int64_t, 2>& kernel,
                                           const std::array<std::int64_t, 2>& stride,
                                           const std::array<std::int64_t, 2>& padding) {
  std::array<std::int64_t, 2> out{};
  for (std::size_t i = 0; i < 2; ++i) {
    DTN_CHECK(kernel[i] > 0 && stride[i] > 0 && padding[i] >= 0, "a kernel of ", kernel[0], " x ",
              kernel[1], " with stride ", stride[0], " x ", stride[1], " and padding ", padding[0],
              " x ", padding[1]);
    const std::int64_t room = grid[i] + 2 * padding[i] - kernel[i];
    DTN_CHECK(room >= 0, "a kernel of ", kernel[0], " x ", kernel[1], " does not fit a grid of ",
              grid[0], " x ", grid[1], " with padding ", padding[0], " x ", padding[1]);
    out[i] = room / stride[i] + 1;
  }
  return out;
}

Variable convolution(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                     const Variable& weight, const Variable& bias, const primitive::Conv2d& how) {
  const ConvolutionShape shape = shape_of(x, grid_h, grid_w, weight, bias, how);
  const Tensor w = weight.value_as(x.dtype());
  const Tensor b = bias.defined() ? bias.value_as(accumulator_of(x.dtype())) : Tensor();
  Tensor y = Tensor::empty({shape.batch, shape.window.out_h * shape.window.out_w, shape.outputs},
                           x.dtype(), x.device());
  run_on(x.device(), ConvolutionForward{shape, x.value().raw(), w.raw(),
                                        b.defined() ? b.raw() : nullptr, y.raw()});
  return ctx.record(
      "convolution", y, {&x, &weight, &bias},
      [shape, w, x = x.value(), to_x = x.sink(), to_weight = weight.sink(),
       to_bias = bias.sink()](const Tensor& dy) {
        if (to_x) {
          Tensor dx = Tensor::empty_like(x);
          run_on(dy.device(), ConvolutionBackwardInput{shape, dy.raw(), w.raw(), dx.raw()});
          to_x->accumulate(std::move(dx));
        }
        if (!to_weight && !to_bias) return;
        const DType acc = accumulator_of(shape.dtype);
        auto gradient = [&](const GradSink& sink, const Shape& of) {
          return sink ? sink->buffer(of, acc, dy.device()).raw() : nullptr;
        };
        run_on(dy.device(),
               ConvolutionBackwardWeight{shape, x.raw(), dy.raw(), gradient(to_weight, w.shape()),
                                         gradient(to_bias, {shape.outputs})});
      });
}

Variable max_pool(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how) {
  return pool(ctx, "max_pool", x, grid_h, grid_w, how, WindowPooling::kMax);
}

Variable avg_pool(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how) {
  return pool(ctx, "avg_pool", x, grid_h, grid_w, how,
              how.count_padding ? WindowPooling::kAveragePadded : WindowPooling::kAverage);
}

// Splits the images into patches of one pixel.
Variable image_tokens(Context&, const Tensor& images, DType dtype) {
  DTN_CHECK(images.rank() == 4, "images ", to_string(images.shape()),
            " are not [B, channels, height, width]");
  const std::int64_t batch = images.dim(0), channels = images.dim(1);
  const std::int64_t height = images.dim(2), width = images.dim(3);
  Tensor tokens = Tensor::empty({batch, height * width, channels}, dtype, images.device());
  run_on(images.device(),
         Patchify{dtype, batch, channels, height, width, 1, images.raw(), tokens.raw()});
  return Variable(tokens);
}

Variable soft_split(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                    std::int64_t k, std::int64_t stride, std::int64_t padding) {
  check_grid("soft_split", x, grid_h, grid_w);
  const Window w = window_on(grid_h, grid_w, {k, k}, {stride, stride}, {padding, padding});
  const std::int64_t batch = x.dim(0), channels = x.dim(2);
  Tensor y = Tensor::empty({batch, w.out_h * w.out_w, channels * k * k}, x.dtype(), x.device());
  run_on(x.device(), SoftSplitForward{x.dtype(), w, batch, channels, x.value().raw(), y.raw()});
  return ctx.record(
      "soft_split", y, {&x}, [=, shape = x.shape(), to_x = x.sink()](const Tensor& dy) {
        Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
        run_on(dy.device(), SoftSplitBackward{dy.dtype(), w, batch, channels, dy.raw(), dx.raw()});
        to_x->accumulate(std::move(dx));
      });
}

// Averages windows of one token.
Variable every_nth(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                   std::int64_t s) {
  return pool(ctx, "every_nth", x, grid_h, grid_w, {{1, 1}, {s, s}}, WindowPooling::kAverage);
}

namespace reference {
using namespace primitive;
namespace {

// [B, h w, C] -> [B, C, h, w]
Variable planes_of(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w) {
  return permute(ctx, reshape(ctx, x, {x.dim(0), grid_h, grid_w, x.dim(2)}), {0, 3, 1, 2});
}
// [B, C, h, w] -> [B, h w, C]
Variable tokens_of(Context& ctx, const Variable& planes) {
  const Variable last = permute(ctx, planes, {0, 2, 3, 1});
  return reshape(ctx, last, {last.dim(0), last.dim(1) * last.dim(2), last.dim(3)});
}

// Returns the padded row (or column) of every tap of every window: [windows k].
Tensor window_rows(std::int64_t windows, std::int64_t k, std::int64_t stride, Device device) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < windows; ++i) {
    for (std::int64_t u = 0; u < k; ++u) rows.push_back(i * stride + u);
  }
  return Tensor::from(rows, {windows * k}).to(device);
}

}  // namespace

Variable convolution(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                     const Variable& weight, const Variable& bias, const Conv2d& how) {
  check_grid("convolution", x, grid_h, grid_w);
  return tokens_of(ctx, conv2d(ctx, planes_of(ctx, x, grid_h, grid_w), weight, bias, how));
}

Variable max_pool(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const Pool2d& how) {
  check_grid("max_pool", x, grid_h, grid_w);
  return tokens_of(ctx, max_pool2d(ctx, planes_of(ctx, x, grid_h, grid_w), how));
}

Variable avg_pool(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const Pool2d& how) {
  check_grid("avg_pool", x, grid_h, grid_w);
  return tokens_of(ctx, avg_pool2d(ctx, planes_of(ctx, x, grid_h, grid_w), how));
}

Variable image_tokens(Context& ctx, const Tensor& images, DType dtype) {
  return cast(ctx, tokens_of(ctx, Variable(images)), dtype);
}

Variable soft_split(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                    std::int64_t k, std::int64_t stride, std::int64_t padding) {
  check_grid("soft_split", x, grid_h, grid_w);
  const auto [h, w] =
      convolved_grid({grid_h, grid_w}, {k, k}, {stride, stride}, {padding, padding});
  const std::int64_t batch = x.dim(0), channels = x.dim(2);
  Variable map = reshape(ctx, x, {batch, grid_h, grid_w, channels});
  map = pad(ctx, pad(ctx, map, 1, padding, padding), 2, padding, padding);
  map = gather(ctx, map, 1, window_rows(h, k, stride, x.device()));
  map = gather(ctx, map, 2, window_rows(w, k, stride, x.device()));
  map = permute(ctx, reshape(ctx, map, {batch, h, k, w, k, channels}), {0, 1, 3, 5, 2, 4});
  return reshape(ctx, map, {batch, h * w, channels * k * k});
}

Variable every_nth(Context& ctx, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                   std::int64_t s) {
  check_grid("every_nth", x, grid_h, grid_w);
  DTN_CHECK(s > 0, "every_nth: the step must be positive, not ", s);
  Variable map = reshape(ctx, x, {x.dim(0), grid_h, grid_w, x.dim(2)});
  map = narrow(ctx, narrow(ctx, map, 1, 0, grid_h, s), 2, 0, grid_w, s);
  return reshape(ctx, map, {x.dim(0), map.dim(1) * map.dim(2), x.dim(2)});
}

}  // namespace reference
}  // namespace dtn::ops
