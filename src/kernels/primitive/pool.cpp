// Pooling, one plane per task; see pool.h.
#include "kernels/primitive/pool.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/primitive/pool_inputs.h"

namespace dtn::DTN_ISA {
namespace {

// Returns the position in the plane of the first largest input, or of the first NaN.
template <class A, class T>
std::int64_t largest(const Window& w, const PoolInputs& in, const T* x) {
  std::int64_t at = in.top * w.width + in.left;
  A best = static_cast<A>(x[at]);
  for (std::int64_t r = in.top; r < in.bottom; ++r) {
    for (std::int64_t c = in.left; c < in.right; ++c) {
      const A value = static_cast<A>(x[r * w.width + c]);
      if (value > best || (value != value && best == best)) best = value, at = r * w.width + c;
    }
  }
  return at;
}

struct Largest {
  template <class V>
  static V of(V most, V x) {
    return ((most > x) | (most != most)) ? most : x;
  }
};
struct Sum {
  template <class V>
  static V of(V sum, V x) {
    return sum + x;
  }
};

// Pools a plane. Each row of windows is reduced down its columns first, in vectors, and then along
// each window.
template <class Op, class A, class T, class Finish>
void pool_plane(const Window& w, const T* x, A* columns, Finish&& finish) {
  for (std::int64_t i = 0; i < w.out_h; ++i) {
    const PoolInputs row(w, i, 0);
    for_each_vector<A>(w.width, [&](std::int64_t c, auto count) {
      auto v = load_n(x + row.top * w.width + c, count);
      for (std::int64_t r = row.top + 1; r < row.bottom; ++r) {
        v = Op::of(v, load_n(x + r * w.width + c, count));
      }
      store_n(columns + c, v, count);
    });
    for (std::int64_t j = 0; j < w.out_w; ++j) {
      const PoolInputs in(w, i, j);
      A result = columns[in.left];
      for (std::int64_t c = in.left + 1; c < in.right; ++c) result = Op::of(result, columns[c]);
      finish(i * w.out_w + j, in, result);
    }
  }
}

}  // namespace

void run(CpuQueue& queue, const PoolForward& args) {
  const Window& w = args.window;
  for_dtype("PoolForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.planes, [&](std::int64_t p) {
      Scratch::Scope scope(queue.scratch());
      A* columns = scope.take<A>(w.width);
      const T* x = static_cast<const T*>(args.x) + p * w.height * w.width;
      T* y = static_cast<T*>(args.y) + p * w.out_h * w.out_w;
      if (args.kind == WindowPooling::kMax) {
        pool_plane<Largest>(w, x, columns, [&](std::int64_t o, const PoolInputs&, A most) {
          y[o] = static_cast<T>(most);
        });
      } else {
        pool_plane<Sum>(w, x, columns, [&](std::int64_t o, const PoolInputs& in, A sum) {
          y[o] = static_cast<T>(sum * in.average_factor<A>(args.kind, w));
        });
      }
    });
  });
}

void run(CpuQueue& queue, const PoolBackward& args) {
  const Window& w = args.window;
  for_dtype("PoolBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.planes, [&](std::int64_t p) {
      Scratch::Scope scope(queue.scratch());
      const std::int64_t size = w.height * w.width;
      A* sums = scope.take<A>(size);
      for (std::int64_t i = 0; i < size; ++i) sums[i] = 0;
      const T* x =
          args.kind == WindowPooling::kMax ? static_cast<const T*>(args.x) + p * size : nullptr;
      const T* dy = static_cast<const T*>(args.dy) + p * w.out_h * w.out_w;
      for (std::int64_t o = 0; o < w.out_h * w.out_w; ++o) {
        const PoolInputs in(w, o / w.out_w, o % w.out_w);
        const A d = static_cast<A>(dy[o]);
        if (args.kind == WindowPooling::kMax) {
          sums[largest<A>(w, in, x)] += d;
          continue;
        }
        const A share = d * in.average_factor<A>(args.kind, w);
        for (std::int64_t r = in.top; r < in.bottom; ++r) {
          for (std::int64_t c = in.left; c < in.right; ++c) sums[r * w.width + c] += share;
        }
      }
      T* dx = static_cast<T*>(args.dx) + p * size;
      for (std::int64_t i = 0; i < size; ++i) dx[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(PoolForward)
DTN_DISPATCH(PoolBackward)
