// The soft split, one token at a time; see soft_split.h.
#include "kernels/conv/soft_split.h"

#include <algorithm>

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

// Calls f(tap, output) for the taps through which outputs along an axis see input i, in order.
template <class F>
void for_outputs(std::int64_t i, std::int64_t kernel, std::int64_t pad, std::int64_t stride,
                 std::int64_t outputs, F&& f) {
  for (std::int64_t tap = (i + pad) % stride; tap < kernel && tap <= i + pad; tap += stride) {
    const std::int64_t output = (i + pad - tap) / stride;
    if (output < outputs) f(tap, output);
  }
}

template <class T>
void split_token(const SoftSplitForward& args, std::int64_t i, std::int64_t j, const T* x, T* y) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t row = i * w.stride_h + tap / w.kernel_w - w.pad_h;
    const std::int64_t column = j * w.stride_w + tap % w.kernel_w - w.pad_w;
    const bool inside = row >= 0 && row < w.height && column >= 0 && column < w.width;
    const T* from = inside ? x + (row * w.width + column) * args.channels : nullptr;
    for (std::int64_t c = 0; c < args.channels; ++c) y[c * taps + tap] = from ? from[c] : T(0.0f);
  }
}

template <class T, class A>
void gather_gradient(const SoftSplitBackward& args, std::int64_t i, std::int64_t j, const T* dy,
                     A* sums, T* dx) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  std::fill_n(sums, args.channels, A(0));
  for_outputs(i, w.kernel_h, w.pad_h, w.stride_h, w.out_h, [&](std::int64_t u, std::int64_t row) {
    for_outputs(j, w.kernel_w, w.pad_w, w.stride_w, w.out_w, [&](std::int64_t v, std::int64_t at) {
      const T* from = dy + (row * w.out_w + at) * args.channels * taps + u * w.kernel_w + v;
      for (std::int64_t c = 0; c < args.channels; ++c) sums[c] += static_cast<A>(from[c * taps]);
    });
  });
  for_each_vector<A>(args.channels,
                     [&](std::int64_t c, auto n) { store_n(dx + c, load_n(sums + c, n), n); });
}

}  // namespace

void run(CpuQueue&, const SoftSplitForward& args) {
  const Window& w = args.window;
  const std::int64_t width = args.channels * w.kernel_h * w.kernel_w;
  if (width == 0) return;
  for_dtype("SoftSplitForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    for_each_row(args.batch * w.out_h, w.out_w * width, [&](std::int64_t r) {
      const T* x = static_cast<const T*>(args.x) + r / w.out_h * w.height * w.width * args.channels;
      T* y = static_cast<T*>(args.y) + r * w.out_w * width;
      for (std::int64_t j = 0; j < w.out_w; ++j)
        split_token(args, r % w.out_h, j, x, y + j * width);
    });
  });
}

void run(CpuQueue& queue, const SoftSplitBackward& args) {
  const Window& w = args.window;
  const std::int64_t width = args.channels * w.kernel_h * w.kernel_w;
  if (width == 0) return;
  for_dtype("SoftSplitBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_ranges(
        args.batch * w.height, row_grain(w.width * args.channels),
        [&](std::int64_t first, std::int64_t last) {
          Scratch::Scope scope(queue.scratch());
          A* sums = scope.take<A>(args.channels);
          for (std::int64_t r = first; r < last; ++r) {
            const T* dy = static_cast<const T*>(args.dy) + r / w.height * w.out_h * w.out_w * width;
            for (std::int64_t j = 0; j < w.width; ++j) {
              gather_gradient(args, r % w.height, j, dy, sums,
                              static_cast<T*>(args.dx) + (r * w.width + j) * args.channels);
            }
          }
        });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(SoftSplitForward)
DTN_DISPATCH(SoftSplitBackward)
