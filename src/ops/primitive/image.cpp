// Convolutions and poolings of images; see dtn/ops/primitive.h. They combine the elements that each
// tap of the windows sees, tap after tap.
#include <limits>

#include "dtn/ops/convolution.h"
#include "dtn/ops/primitive.h"

namespace dtn::primitive {
namespace {

using Pair = std::array<std::int64_t, 2>;  // along height, width

// Windows that slide over images.
struct Windows {
  Pair kernel, stride, padding, out;

  Windows(const char* op, const Variable& x, const Pair& size, const Pair& step, const Pair& zeros)
      : kernel(size), stride(step), padding(zeros) {
    DTN_CHECK(x.value().rank() == 4, op, ": input ", to_string(x.shape()), " is not [B, C, H, W]");
    out = ops::convolved_grid({x.dim(2), x.dim(3)}, kernel, stride, padding);
  }

  // Calls f(seen, u, v) for each tap (u, v), row by row. `seen` [B, C, H', W'] are the elements
  // that the tap sees. Those of the padding have the value `outside`.
  template <class F>
  void for_taps(Context& ctx, const Variable& x, double outside, F&& f) const {
    Variable padded = pad(ctx, x, 2, padding[0], padding[0], outside);
    padded = pad(ctx, padded, 3, padding[1], padding[1], outside);
    for (std::int64_t u = 0; u < kernel[0]; ++u) {
      const Variable rows = narrow(ctx, padded, 2, u, u + (out[0] - 1) * stride[0] + 1, stride[0]);
      for (std::int64_t v = 0; v < kernel[1]; ++v) {
        f(narrow(ctx, rows, 3, v, v + (out[1] - 1) * stride[1] + 1, stride[1]), u, v);
      }
    }
  }

  Variable sums(Context& ctx, const Variable& x) const {
    Variable total;
    for_taps(ctx, x, 0, [&](const Variable& seen, std::int64_t, std::int64_t) {
      total = total.defined() ? add(ctx, total, seen) : seen;
    });
    return total;
  }
};

Windows windows_of(const char* op, const Variable& x, const Pool2d& how) {
  const Windows w(op, x, how.kernel, how.stride, how.padding);
  DTN_CHECK(w.padding[0] < w.kernel[0] && w.padding[1] < w.kernel[1], op, ": padding ",
            w.padding[0], " x ", w.padding[1], " must be smaller than the window, ", w.kernel[0],
            " x ", w.kernel[1]);
  return w;
}

}  // namespace

Variable conv2d(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2d& how) {
  const Shape& w = weight.shape();
  DTN_CHECK(w.rank() == 4, "conv2d: weight ", to_string(w), " is not [O, C, kh, kw]");
  const Windows windows("conv2d", x, {w[2], w[3]}, how.stride, how.padding);
  const std::int64_t batch = x.dim(0), outputs = w[0], groups = how.groups;
  DTN_CHECK(
      groups > 0 && x.dim(1) % groups == 0 && outputs % groups == 0 && w[1] == x.dim(1) / groups,
      "conv2d: weight ", to_string(w), " does not fit input ", to_string(x.shape()), " in ", groups,
      " groups");
  DTN_CHECK(weight.device() == x.device(), "conv2d: weight on ", to_string(weight.device()),
            ", input on ", to_string(x.device()));
  DTN_CHECK(!bias.defined() || bias.shape() == Shape{outputs}, "conv2d: bias ",
            to_string(bias.shape()), " does not fit weight ", to_string(w));
  const std::int64_t height = windows.out[0], width = windows.out[1];
  const Variable wide = upcast(ctx, x), kernels = cast(ctx, weight, wide.dtype());
  Variable y;  // [B, groups, O / groups, H' W']
  windows.for_taps(ctx, wide, 0, [&](const Variable& seen, std::int64_t u, std::int64_t v) {
    const Variable tap = narrow(ctx, narrow(ctx, kernels, 2, u, u + 1), 3, v, v + 1);
    const Variable term = matmul(ctx, reshape(ctx, tap, {groups, outputs / groups, w[1]}),
                                 reshape(ctx, seen, {batch, groups, w[1], height * width}));
    y = y.defined() ? add(ctx, y, term) : term;
  });
  y = reshape(ctx, y, {batch, outputs, height, width});
  if (bias.defined()) {
    y = add(ctx, y, reshape(ctx, cast(ctx, bias, wide.dtype()), {outputs, 1, 1}));
  }
  return cast(ctx, y, x.dtype());
}

Variable max_pool2d(Context& ctx, const Variable& x, const Pool2d& how) {
  const Windows windows = windows_of("max_pool2d", x, how);
  Variable most;
  windows.for_taps(ctx, upcast(ctx, x), -std::numeric_limits<double>::infinity(),
                   [&](const Variable& seen, std::int64_t, std::int64_t) {
                     most = most.defined() ? maximum(ctx, most, seen) : seen;
                   });
  return cast(ctx, most, x.dtype());
}

Variable avg_pool2d(Context& ctx, const Variable& x, const Pool2d& how) {
  const Windows windows = windows_of("avg_pool2d", x, how);
  const Variable sums = windows.sums(ctx, upcast(ctx, x));
  const Variable counts =
      how.count_padding
          ? constant(sums, static_cast<double>(how.kernel[0] * how.kernel[1]))
          : windows.sums(ctx, full({1, 1, x.dim(2), x.dim(3)}, sums.dtype(), x.device(), 1));
  return cast(ctx, div(ctx, sums, counts), x.dtype());
}

}  // namespace dtn::primitive
