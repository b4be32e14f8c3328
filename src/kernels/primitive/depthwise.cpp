// Depthwise convolutions on short vectors; see depthwise.h.
//
// A plane is first copied into scratch memory, with zeros around it wherever windows reach beyond
// its edges. So the loops over outputs and taps need no edge cases. The gradient of x is the same
// correlation, but of dy, spread out with zeros by the stride, and of the rotated kernel. For a
// stride along rows, the forward pass computes all outputs and drops those between.
#include "kernels/primitive/depthwise.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// Scratch memory for a padded plane. Whole vectors may be read at any of its elements.
template <class A>
struct Padded {
  std::int64_t rows, columns, stride;
  A* values;

  Padded(Scratch::Scope& scope, std::int64_t h, std::int64_t w)
      : rows(h), columns(w), stride(w + kLanes<A>) {
    values = scope.take<A>((rows + 1) * stride);
  }
  // Copies x [h, w] to (top, left), elements row_step and column_step apart. The rest is zero.
  template <class T>
  void lay_out(const T* x, std::int64_t h, std::int64_t w, std::int64_t top, std::int64_t left,
               std::int64_t row_step, std::int64_t column_step) {
    for (std::int64_t i = 0; i < (rows + 1) * stride; ++i) values[i] = 0;
    for (std::int64_t i = 0; i < h; ++i) {
      const std::int64_t row = top + i * row_step;
      if (row < 0 || row >= rows) continue;
      A* to = values + row * stride + left;
      const T* from = x + i * w;
      std::int64_t begin = 0, end = w;
      while (begin < end && left + begin * column_step < 0) ++begin;
      while (begin < end && left + (end - 1) * column_step >= columns) --end;
      if (column_step == 1) {
        for_each_vector<A>(end - begin, [&](std::int64_t j, auto count) {
          store_n(to + begin + j, load_n(from + begin + j, count), count);
        });
      } else {
        for (std::int64_t j = begin; j < end; ++j) to[j * column_step] = static_cast<A>(from[j]);
      }
    }
  }
  const A* row(std::int64_t i) const { return values + i * stride; }
};

//    to[j] = sum over (u, v) of weight[u, v] plane[i + u, j + v], 0 <= j < count
template <class A, class T>
void correlate_row(const Padded<A>& plane, std::int64_t i, const A* weight, std::int64_t kernel_h,
                   std::int64_t kernel_w, T* to, std::int64_t count) {
  using V = Vec<A>;
  constexpr std::int64_t lanes = kLanes<A>;
  std::int64_t j = 0;
  for (; j + 4 * lanes <= count; j += 4 * lanes) {
    V sum[4] = {};
    for (std::int64_t u = 0; u < kernel_h; ++u) {
      const A* from = plane.row(i + u) + j;
      for (std::int64_t v = 0; v < kernel_w; ++v) {
        const A w = weight[u * kernel_w + v];
        for (int k = 0; k < 4; ++k) sum[k] += w * load(from + v + k * lanes);
      }
    }
    for (int k = 0; k < 4; ++k) store(to + j + k * lanes, sum[k]);
  }
  for_each_vector<A>(count - j, [&](std::int64_t rest, auto n) {
    V sum{};
    for (std::int64_t u = 0; u < kernel_h; ++u) {
      const A* from = plane.row(i + u) + j + rest;
      for (std::int64_t v = 0; v < kernel_w; ++v) {
        sum += weight[u * kernel_w + v] * load(from + v);
      }
    }
    store_n(to + j + rest, sum, n);
  });
}

template <class A, class T>
A* taps_of(Scratch::Scope& scope, const T* weight, std::int64_t taps, bool turned) {
  A* to = scope.take<A>(taps);
  for (std::int64_t k = 0; k < taps; ++k) to[k] = static_cast<A>(weight[turned ? taps - 1 - k : k]);
  return to;
}

}  // namespace

void run(CpuQueue& queue, const DepthwiseForward& args) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for_dtype("DepthwiseForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.batch * args.channels, [&](std::int64_t p) {
      Scratch::Scope scope(queue.scratch());
      const A* weight = taps_of<A>(
          scope, static_cast<const T*>(args.weight) + p % args.channels * taps, taps, false);
      Padded<A> plane(scope, (w.out_h - 1) * w.stride_h + w.kernel_h,
                      (w.out_w - 1) * w.stride_w + w.kernel_w);
      plane.lay_out(static_cast<const T*>(args.x) + p * w.height * w.width, w.height, w.width,
                    w.pad_h, w.pad_w, 1, 1);
      const std::int64_t dense = (w.out_w - 1) * w.stride_w + 1;
      A* row = scope.take<A>(dense);
      for (std::int64_t i = 0; i < w.out_h; ++i) {
        T* y = static_cast<T*>(args.y) + (p * w.out_h + i) * w.out_w;
        if (w.stride_w == 1) {
          correlate_row(plane, i * w.stride_h, weight, w.kernel_h, w.kernel_w, y, w.out_w);
          continue;
        }
        correlate_row(plane, i * w.stride_h, weight, w.kernel_h, w.kernel_w, row, dense);
        for (std::int64_t j = 0; j < w.out_w; ++j) y[j] = static_cast<T>(row[j * w.stride_w]);
      }
    });
  });
}

void run(CpuQueue& queue, const DepthwiseBackwardInput& args) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for_dtype("DepthwiseBackwardInput", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.batch * args.channels, [&](std::int64_t p) {
      Scratch::Scope scope(queue.scratch());
      const A* turned = taps_of<A>(
          scope, static_cast<const T*>(args.weight) + p % args.channels * taps, taps, true);
      Padded<A> plane(scope, w.height + w.kernel_h - 1, w.width + w.kernel_w - 1);
      plane.lay_out(static_cast<const T*>(args.dy) + p * w.out_h * w.out_w, w.out_h, w.out_w,
                    w.kernel_h - 1 - w.pad_h, w.kernel_w - 1 - w.pad_w, w.stride_h, w.stride_w);
      for (std::int64_t i = 0; i < w.height; ++i) {
        correlate_row(plane, i, turned, w.kernel_h, w.kernel_w,
                      static_cast<T*>(args.dx) + (p * w.height + i) * w.width, w.width);
      }
    });
  });
}

void run(CpuQueue& queue, const DepthwiseBackwardWeight& args) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for_dtype("DepthwiseBackwardWeight", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    constexpr std::int64_t lanes = kLanes<A>;
    parallel_for(args.channels, [&](std::int64_t c) {
      Scratch::Scope scope(queue.scratch());
      const std::int64_t dense = (w.out_w - 1) * w.stride_w + 1;
      Padded<A> plane(scope, (w.out_h - 1) * w.stride_h + w.kernel_h, dense + w.kernel_w - 1);
      Padded<A> gradient(scope, w.out_h, dense);
      A* sums = scope.take<A>(taps * lanes);
      for (std::int64_t k = 0; k < taps * lanes; ++k) sums[k] = 0;
      for (std::int64_t b = 0; b < args.batch; ++b) {
        const std::int64_t p = b * args.channels + c;
        plane.lay_out(static_cast<const T*>(args.x) + p * w.height * w.width, w.height, w.width,
                      w.pad_h, w.pad_w, 1, 1);
        gradient.lay_out(static_cast<const T*>(args.dy) + p * w.out_h * w.out_w, w.out_h, w.out_w,
                         0, 0, 1, w.stride_w);
        for (std::int64_t k = 0; k < taps; ++k) {
          Vec<A> sum = load(sums + k * lanes);
          for (std::int64_t i = 0; i < w.out_h; ++i) {
            const A* dy = gradient.row(i);
            const A* x = plane.row(i * w.stride_h + k / w.kernel_w) + k % w.kernel_w;
            // Elements read beyond the row are multiplied by zeros of the gradient.
            for (std::int64_t j = 0; j < dense; j += lanes) sum += load(dy + j) * load(x + j);
          }
          store(sums + k * lanes, sum);
        }
      }
      A* dweight = static_cast<A*>(args.dweight) + c * taps;
      for (std::int64_t k = 0; k < taps; ++k) dweight[k] = reduce_add(load(sums + k * lanes));
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(DepthwiseForward)
DTN_DISPATCH(DepthwiseBackwardInput)
DTN_DISPATCH(DepthwiseBackwardWeight)
