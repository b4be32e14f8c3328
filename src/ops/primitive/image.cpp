// Convolutions and poolings of images; see dtn/ops/primitive.h.
//
// A convolution unfolds a few images at a time into the columns of a matrix product. Pointwise
// convolutions need no unfolding. Depthwise convolutions have separate kernels.
#include <algorithm>

#include "dtn/ops/primitive.h"
#include "kernels/gemm/gemm.h"
#include "kernels/primitive/depthwise.h"
#include "kernels/primitive/pool.h"
#include "kernels/primitive/unfold.h"
#include "ops/primitive/tensors.h"

namespace dtn::primitive {
namespace {

Window window_of(const char* op, const Tensor& x, std::int64_t kernel_h, std::int64_t kernel_w,
                 const std::array<std::int64_t, 2>& stride,
                 const std::array<std::int64_t, 2>& padding) {
  DTN_CHECK(x.rank() == 4, op, ": input ", to_string(x.shape()), " is not [B, C, H, W]");
  DTN_CHECK(stride[0] > 0 && stride[1] > 0 && padding[0] >= 0 && padding[1] >= 0, op, ": stride ",
            stride[0], " x ", stride[1], ", padding ", padding[0], " x ", padding[1]);
  Window w{};
  w.height = x.dim(2), w.width = x.dim(3);
  w.kernel_h = kernel_h, w.kernel_w = kernel_w;
  w.stride_h = stride[0], w.stride_w = stride[1];
  w.pad_h = padding[0], w.pad_w = padding[1];
  const std::int64_t room_h = w.height + 2 * w.pad_h - kernel_h;
  const std::int64_t room_w = w.width + 2 * w.pad_w - kernel_w;
  DTN_CHECK(kernel_h > 0 && kernel_w > 0 && room_h >= 0 && room_w >= 0, op, ": a kernel of ",
            kernel_h, " x ", kernel_w, " does not fit ", to_string(x.shape()), " with padding ",
            w.pad_h, " x ", w.pad_w);
  w.out_h = room_h / w.stride_h + 1;
  w.out_w = room_w / w.stride_w + 1;
  return w;
}

void* at(Tensor& t, std::int64_t element) {
  return static_cast<std::byte*>(t.raw()) + static_cast<std::size_t>(element) * size_of(t.dtype());
}
const void* at(const Tensor& t, std::int64_t element) {
  return static_cast<const std::byte*>(t.raw()) +
         static_cast<std::size_t>(element) * size_of(t.dtype());
}

// Shapes of a convolution, and its three products.
struct Convolution {
  Window window;
  DType dtype;
  Device device;
  std::int64_t batch, channels, outputs, groups;
  std::int64_t taps, pixels;  // of a kernel; of an output plane

  Convolution(const Tensor& x, const Shape& weight, const Conv2d& how)
      : dtype(x.dtype()), device(x.device()), groups(how.groups) {
    DTN_CHECK(weight.rank() == 4, "conv2d: weight ", to_string(weight), " is not [O, C, kh, kw]");
    window = window_of("conv2d", x, weight[2], weight[3], how.stride, how.padding);
    batch = x.dim(0), channels = x.dim(1), outputs = weight[0];
    DTN_CHECK(groups > 0 && channels % groups == 0 && outputs % groups == 0 &&
                  weight[1] == channels / groups,
              "conv2d: weight ", to_string(weight), " does not fit input ", to_string(x.shape()),
              " in ", groups, " groups");
    taps = weight[2] * weight[3];
    pixels = window.out_h * window.out_w;
  }

  bool depthwise() const { return groups == channels && outputs == channels; }
  // Returns true if the columns are equal to the input.
  bool pointwise() const {
    return taps == 1 && window.stride_h == 1 && window.stride_w == 1 && window.pad_h == 0 &&
           window.pad_w == 0;
  }
  std::int64_t column_rows() const { return channels / groups * taps; }  // of a group
  Shape y_shape() const { return {batch, outputs, window.out_h, window.out_w}; }
  std::int64_t x_image() const { return channels * window.height * window.width; }

  // Calls f(first, count) for a few images at a time, whose columns take some 32 MiB.
  template <class F>
  void for_images(F&& f) const {
    const std::int64_t image = std::max<std::int64_t>(
        1, channels * taps * pixels * static_cast<std::int64_t>(size_of(dtype)));
    const std::int64_t some = std::clamp<std::int64_t>((std::int64_t{32} << 20) / image, 1, batch);
    for (std::int64_t first = 0; first < batch; first += some) {
      f(first, std::min(some, batch - first));
    }
  }
  // [count, C kh kw, out_h out_w]
  Tensor columns(const Tensor& x, std::int64_t first, std::int64_t count) const {
    if (pointwise()) return x.slice(first, first + count);
    Tensor columns = Tensor::empty({count, channels * taps, pixels}, dtype, device);
    run_on(device,
           Unfold{dtype, window, count * channels, at(x, first * x_image()), columns.raw()});
    return columns;
  }

  Tensor forward(const Tensor& x, const Tensor& weight) const;
  Tensor backward_input(const Tensor& dy, const Tensor& weight, const Shape& x_shape) const;
  Tensor backward_weight(const Tensor& dy, const Tensor& x, const Shape& shape) const;
};

Tensor Convolution::forward(const Tensor& x, const Tensor& weight) const {
  Tensor y = Tensor::empty(y_shape(), dtype, device);
  if (y.numel() == 0) return y;
  if (depthwise()) {
    run_on(device,
           DepthwiseForward{dtype, window, batch, channels, x.raw(), weight.raw(), y.raw()});
    return y;
  }
  const std::int64_t k = column_rows(), out = outputs / groups;
  for_images([&](std::int64_t first, std::int64_t count) {
    const Tensor cols = columns(x, first, count);
    for (std::int64_t group = 0; group < groups; ++group) {
      Gemm g{};
      g.dtype = g.c_dtype = dtype;
      g.m = out, g.n = pixels, g.k = k;
      g.a = at(weight, group * out * k);
      g.b = at(cols, group * k * pixels);
      g.c = at(y, (first * outputs + group * out) * pixels);
      g.lda = k, g.ldb = g.ldc = pixels;
      g.batch = count;
      g.stride_b = groups * k * pixels;
      g.stride_c = outputs * pixels;
      run_on(device, g);
    }
  });
  return y;
}

Tensor Convolution::backward_input(const Tensor& dy, const Tensor& weight,
                                   const Shape& x_shape) const {
  Tensor dx = Tensor::empty(x_shape, dtype, device);
  if (dx.numel() == 0) return dx;
  if (depthwise()) {
    run_on(device, DepthwiseBackwardInput{dtype, window, batch, channels, dy.raw(), weight.raw(),
                                          dx.raw()});
    return dx;
  }
  const std::int64_t k = column_rows(), out = outputs / groups;
  for_images([&](std::int64_t first, std::int64_t count) {
    Tensor dcols = pointwise() ? dx.slice(first, first + count)
                               : Tensor::empty({count, channels * taps, pixels}, dtype, device);
    for (std::int64_t group = 0; group < groups; ++group) {
      Gemm g{};
      g.dtype = g.c_dtype = dtype;
      g.m = k, g.n = pixels, g.k = out;
      g.a = at(weight, group * out * k);
      g.transpose_a = true;
      g.b = at(dy, (first * outputs + group * out) * pixels);
      g.c = at(dcols, group * k * pixels);
      g.lda = k, g.ldb = g.ldc = pixels;
      g.batch = count;
      g.stride_b = outputs * pixels;
      g.stride_c = groups * k * pixels;
      run_on(device, g);
    }
    if (pointwise()) return;
    run_on(device, Fold{dtype, window, count * channels, dcols.raw(), at(dx, first * x_image())});
  });
  return dx;
}

// Returns the gradient in the accumulator type. Adds up images in order.
Tensor Convolution::backward_weight(const Tensor& dy, const Tensor& x, const Shape& shape) const {
  const DType acc = accumulator_of(dtype);
  if (batch == 0) return Tensor::zeros(shape, acc, device);
  Tensor dweight = Tensor::empty(shape, acc, device);
  if (depthwise()) {
    run_on(device, DepthwiseBackwardWeight{dtype, window, batch, channels, x.raw(), dy.raw(),
                                           dweight.raw()});
    return dweight;
  }
  const std::int64_t k = column_rows(), out = outputs / groups;
  for_images([&](std::int64_t first, std::int64_t count) {
    const Tensor cols = columns(x, first, count);
    for (std::int64_t image = 0; image < count; ++image) {
      for (std::int64_t group = 0; group < groups; ++group) {
        Gemm g{};
        g.dtype = dtype;
        g.c_dtype = acc;
        g.m = out, g.n = k, g.k = pixels;
        g.a = at(dy, ((first + image) * outputs + group * out) * pixels);
        g.b = at(cols, (image * groups + group) * k * pixels);
        g.transpose_b = true;
        g.c = at(dweight, group * out * k);
        g.lda = g.ldb = pixels;
        g.ldc = k;
        g.accumulate = first + image > 0;
        run_on(device, g);
      }
    }
  });
  return dweight;
}

Variable pool(Context& ctx, const char* op, const Variable& x, const Pool2d& how,
              WindowPooling kind) {
  const Window w = window_of(op, x.value(), how.kernel[0], how.kernel[1], how.stride, how.padding);
  DTN_CHECK(w.pad_h < w.kernel_h && w.pad_w < w.kernel_w, op, ": padding ", w.pad_h, " x ", w.pad_w,
            " must be smaller than the window, ", w.kernel_h, " x ", w.kernel_w);
  const std::int64_t planes = x.dim(0) * x.dim(1);
  Tensor y = Tensor::empty({x.dim(0), x.dim(1), w.out_h, w.out_w}, x.dtype(), x.device());
  run_on(x.device(), PoolForward{x.dtype(), kind, w, planes, x.value().raw(), y.raw()});
  const Tensor saved = kind == WindowPooling::kMax ? x.value() : Tensor();
  return ctx.record(op, y, {&x}, [=, shape = x.shape(), to_x = x.sink()](const Tensor& dy) {
    Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
    run_on(dy.device(), PoolBackward{dy.dtype(), kind, w, planes,
                                     saved.defined() ? saved.raw() : nullptr, dy.raw(), dx.raw()});
    to_x->accumulate(std::move(dx));
  });
}

}  // namespace

Variable conv2d(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2d& how) {
  const Convolution conv(x.value(), weight.shape(), how);
  DTN_CHECK(weight.device() == x.device(), "conv2d: weight on ", to_string(weight.device()),
            ", input on ", to_string(x.device()));
  const Tensor w = weight.value_as(x.dtype());
  Tensor y = conv.forward(x.value(), w);
  if (bias.defined()) {
    DTN_CHECK(bias.shape() == Shape{conv.outputs}, "conv2d: bias ", to_string(bias.shape()),
              " does not fit weight ", to_string(weight.shape()));
    const Tensor b = bias.value_as(x.dtype()).reshape({conv.outputs, 1, 1});
    y = map(Function::kAdd, y.shape(), {&y, &b});
  }
  return ctx.record(
      "conv2d", y, {&x, &weight, &bias},
      [conv, w, x = x.value(), w_dtype = weight.dtype(),
       b_dtype = bias.defined() ? bias.dtype() : DType::kFloat32, dx = x.sink(),
       dweight = weight.sink(), dbias = bias.sink()](const Tensor& dy) {
        if (dx) dx->accumulate(conv.backward_input(dy, w, x.shape()));
        if (dweight) {
          dweight->accumulate(cast_tensor(conv.backward_weight(dy, x, w.shape()), w_dtype));
        }
        if (!dbias) return;
        const Tensor sums =
            reduce(dy, Reduction::kSum, {true, false, true, true}, accumulator_of(dy.dtype()));
        dbias->accumulate(cast_tensor(sums.reshape({conv.outputs}), b_dtype));
      });
}

Variable max_pool2d(Context& ctx, const Variable& x, const Pool2d& how) {
  return pool(ctx, "max_pool2d", x, how, WindowPooling::kMax);
}
Variable avg_pool2d(Context& ctx, const Variable& x, const Pool2d& how) {
  return pool(ctx, "avg_pool2d", x, how,
              how.count_padding ? WindowPooling::kAveragePadded : WindowPooling::kAverage);
}

}  // namespace dtn::primitive
