// Pooling of tokens on vectors of channels; see pool_tokens.h. The gradient is computed by bands of
// rows of the input. The terms of all windows of a band are summed in scratch memory, window after
// window in raster order. Windows that reach into two bands are evaluated twice.
#include "kernels/conv/pool_tokens.h"

#include <algorithm>

#include "kernels/conv/pool_inputs.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

// Calls f(place) for the inputs of a window, row by row.
template <class F>
void for_inputs(const Window& w, const PoolInputs& in, F&& f) {
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) f(r * w.width + c);
  }
}

// Returns in each lane true if x replaces the largest value so far: x is larger, or the first NaN.
template <class V>
auto exceeds(V x, V most) {
  return (x > most) | ((x != x) & (most == most));
}

template <class T>
void pool_window(const PoolTokensForward& args, const PoolInputs& in, const T* x, T* y) {
  using A = AccumulatorOf<T>;
  const A factor = in.average_factor<A>(args.kind, args.window);
  for_each_vector<A>(args.channels, [&](std::int64_t c, auto count) {
    const T* channel = x + c;
    auto value = [&](std::int64_t place) { return load_n(channel + place * args.channels, count); };
    if (args.kind == WindowPooling::kMax) {
      Vec<A> most = value(in.top * args.window.width + in.left);
      for_inputs(args.window, in, [&](std::int64_t place) {
        const Vec<A> v = value(place);
        most = exceeds(v, most) ? v : most;
      });
      store_n(y + c, most, count);
    } else {
      Vec<A> sum{};
      for_inputs(args.window, in, [&](std::int64_t place) { sum += value(place); });
      store_n(y + c, Vec<A>(sum * factor), count);
    }
  });
}

// Adds the gradients that a window sends to rows [begin, end) of the input to sums
// [end - begin, width, C].
template <class T, class A>
void send_back(const PoolTokensBackward& args, const PoolInputs& in, std::int64_t begin,
               std::int64_t end, const T* x, const T* dy, A* sums) {
  const Window& w = args.window;
  PoolInputs within = in;
  within.top = std::max(in.top, begin), within.bottom = std::min(in.bottom, end);
  const A factor = in.average_factor<A>(args.kind, w);
  for_each_vector<A>(args.channels, [&](std::int64_t c, auto count) {
    const Vec<A> d = load_n(dy + c, count);
    A* to = sums + c - begin * w.width * args.channels;
    if (args.kind != WindowPooling::kMax) {
      for_inputs(w, within, [&](std::int64_t place) {
        A* sum = to + place * args.channels;
        store_n(sum, Vec<A>(load_n(sum, count) + d * factor), count);
      });
      return;
    }
    auto value = [&](std::int64_t place) { return load_n(x + c + place * args.channels, count); };
    // The largest value, and its first place in the window.
    Vec<A> most = value(in.top * w.width + in.left), which{};
    A number = 0;
    for_inputs(w, in, [&](std::int64_t place) {
      const Vec<A> v = value(place);
      const auto is_larger = exceeds(v, most);
      most = is_larger ? v : most;
      which = is_larger ? broadcast(number) : which;
      number += 1;
    });
    number = static_cast<A>((within.top - in.top) * (in.right - in.left));
    for_inputs(w, within, [&](std::int64_t place) {
      A* sum = to + place * args.channels;
      const Vec<A> share = which == number ? d : Vec<A>{};
      store_n(sum, Vec<A>(load_n(sum, count) + share), count);
      number += 1;
    });
  });
}

// Computes rows [begin, end) of the gradient of one image.
template <class T>
void backward_band(CpuQueue& queue, const PoolTokensBackward& args, std::int64_t image,
                   std::int64_t begin, std::int64_t end) {
  using A = AccumulatorOf<T>;
  const Window& w = args.window;
  const std::int64_t inputs = w.height * w.width * args.channels;
  const std::int64_t count = (end - begin) * w.width * args.channels;
  const T* x =
      args.kind == WindowPooling::kMax ? static_cast<const T*>(args.x) + image * inputs : nullptr;
  const T* dy = static_cast<const T*>(args.dy) + image * w.out_h * w.out_w * args.channels;
  Scratch::Scope scope(queue.scratch());
  A* sums = scope.take<A>(count);
  std::fill_n(sums, count, A(0));
  for (std::int64_t i = 0; i < w.out_h; ++i) {
    const PoolInputs row(w, i, 0);
    if (row.bottom <= begin || row.top >= end) continue;
    for (std::int64_t j = 0; j < w.out_w; ++j) {
      send_back(args, PoolInputs(w, i, j), begin, end, x, dy + (i * w.out_w + j) * args.channels,
                sums);
    }
  }
  T* dx = static_cast<T*>(args.dx) + image * inputs + begin * w.width * args.channels;
  for_each_vector<A>(count,
                     [&](std::int64_t k, auto n) { store_n(dx + k, load_n(sums + k, n), n); });
}

}  // namespace

void run(CpuQueue&, const PoolTokensForward& args) {
  const Window& w = args.window;
  if (args.channels == 0) return;
  for_dtype("PoolTokensForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    for_each_row(args.batch * w.out_h, w.width * args.channels, [&](std::int64_t r) {
      const std::int64_t image = r / w.out_h, i = r % w.out_h;
      const T* x = static_cast<const T*>(args.x) + image * w.height * w.width * args.channels;
      T* y = static_cast<T*>(args.y) + r * w.out_w * args.channels;
      for (std::int64_t j = 0; j < w.out_w; ++j) {
        pool_window(args, PoolInputs(w, i, j), x, y + j * args.channels);
      }
    });
  });
}

void run(CpuQueue& queue, const PoolTokensBackward& args) {
  const Window& w = args.window;
  if (args.channels == 0) return;
  constexpr std::int64_t kBand = 1 << 16;  // elements that stay in the second-level cache
  const std::int64_t rows =
      std::clamp<std::int64_t>(kBand / (w.width * args.channels), 1, w.height);
  const std::int64_t bands = (w.height + rows - 1) / rows;
  for_dtype("PoolTokensBackward", args.dtype, [&](auto t) {
    parallel_for(args.batch * bands, [&](std::int64_t task) {
      const std::int64_t begin = task % bands * rows;
      backward_band<decltype(t)>(queue, args, task / bands, begin,
                                 std::min(begin + rows, w.height));
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PoolTokensForward)
DTN_DISPATCH(PoolTokensBackward)
