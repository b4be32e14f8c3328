// Windows laid out as columns; see unfold.h.
#include "kernels/primitive/unfold.h"

#include <algorithm>
#include <cstring>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

// Outputs [begin, end) along one dimension whose input, output * stride + offset, is inside.
struct Inside {
  std::int64_t begin, end;
  Inside(std::int64_t offset, std::int64_t stride, std::int64_t size, std::int64_t outputs) {
    begin = offset >= 0 ? 0 : std::min((-offset + stride - 1) / stride, outputs);
    end = offset >= size ? 0 : std::min((size - offset + stride - 1) / stride, outputs);
    end = std::max(begin, end);
  }
};

// Writes the row of outputs that tap v takes from a row of inputs.
template <class T>
void unfold_row(const Window& w, std::int64_t v, const T* x, T* to) {
  const std::int64_t offset = v - w.pad_w;
  const Inside inside(offset, w.stride_w, w.width, w.out_w);
  for (std::int64_t j = 0; j < inside.begin; ++j) to[j] = T{};
  if (w.stride_w == 1) {
    std::memcpy(to + inside.begin, x + inside.begin + offset,
                static_cast<std::size_t>(inside.end - inside.begin) * sizeof(T));
  } else {
    for (std::int64_t j = inside.begin; j < inside.end; ++j) to[j] = x[j * w.stride_w + offset];
  }
  for (std::int64_t j = inside.end; j < w.out_w; ++j) to[j] = T{};
}

}  // namespace

void run(CpuQueue&, const Unfold& args) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for_dtype("Unfold", args.dtype, [&](auto t) {
    using T = decltype(t);
    parallel_for(args.planes, [&](std::int64_t p) {
      const T* x = static_cast<const T*>(args.x) + p * w.height * w.width;
      T* to = static_cast<T*>(args.columns) + p * taps * w.out_h * w.out_w;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t i = 0; i < w.out_h; ++i, to += w.out_w) {
          const std::int64_t y = i * w.stride_h + tap / w.kernel_w - w.pad_h;
          if (0 <= y && y < w.height) {
            unfold_row(w, tap % w.kernel_w, x + y * w.width, to);
          } else {
            for (std::int64_t j = 0; j < w.out_w; ++j) to[j] = T{};
          }
        }
      }
    });
  });
}

void run(CpuQueue& queue, const Fold& args) {
  const Window& w = args.window;
  const std::int64_t taps = w.kernel_h * w.kernel_w;
  for_dtype("Fold", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.planes, [&](std::int64_t p) {
      Scratch::Scope scope(queue.scratch());
      A* sums = scope.take<A>(w.height * w.width);
      for (std::int64_t i = 0; i < w.height * w.width; ++i) sums[i] = 0;
      const T* from = static_cast<const T*>(args.dcolumns) + p * taps * w.out_h * w.out_w;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t offset = tap % w.kernel_w - w.pad_w;
        const Inside inside(offset, w.stride_w, w.width, w.out_w);
        for (std::int64_t i = 0; i < w.out_h; ++i, from += w.out_w) {
          const std::int64_t y = i * w.stride_h + tap / w.kernel_w - w.pad_h;
          if (y < 0 || y >= w.height) continue;
          A* row = sums + y * w.width + offset;
          for (std::int64_t j = inside.begin; j < inside.end; ++j) {
            row[j * w.stride_w] += static_cast<A>(from[j]);
          }
        }
      }
      T* dx = static_cast<T*>(args.dx) + p * w.height * w.width;
      for_each_vector<A>(w.height * w.width, [&](std::int64_t i, auto count) {
        store_n(dx + i, load_n(sums + i, count), count);
      });
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(Unfold)
DTN_DISPATCH(Fold)
