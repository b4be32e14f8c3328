// Softmax on short vectors; see softmax.h.
#include "kernels/primitive/softmax.h"

#include <limits>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {
namespace {

template <class T, class A>
void softmax_row(const T* x, std::int64_t n, A* exponentials, T* y) {
  using V = Vec<A>;
  const V none = broadcast(-std::numeric_limits<A>::infinity());
  V largest = none;
  for_each_vector<A>(n, [&](std::int64_t i, auto count) {
    V v = load_n(x + i, count);
    if constexpr (std::is_same_v<decltype(count), int>) {
      for (int k = count; k < kLanes<A>; ++k) v[k] = none[0];
    }
    largest = max(largest, v);
  });
  const V peak = broadcast(reduce_max(largest));
  V sum{};
  for_each_vector<A>(n, [&](std::int64_t i, auto count) {
    const V e = exp(load_n(x + i, count) - peak);
    store_n(exponentials + i, e, count);
    sum += keep_n(e, count);
  });
  const A factor = 1 / reduce_add(sum);
  for_each_vector<A>(n, [&](std::int64_t i, auto count) {
    store_n(y + i, load_n(exponentials + i, count) * factor, count);
  });
}

}  // namespace

void run(CpuQueue& queue, const SoftmaxForward& args) {
  if (args.columns == 0) return;
  for_dtype("SoftmaxForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_ranges(args.rows, row_grain(args.columns), [&](std::int64_t begin, std::int64_t end) {
      Scratch::Scope scope(queue.scratch());
      A* exponentials = scope.take<A>(args.columns);
      for (std::int64_t r = begin; r < end; ++r) {
        softmax_row(static_cast<const T*>(args.x) + r * args.columns, args.columns, exponentials,
                    static_cast<T*>(args.y) + r * args.columns);
      }
    });
  });
}

void run(CpuQueue&, const SoftmaxBackward& args) {
  if (args.columns == 0) return;
  for_dtype("SoftmaxBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    for_each_row(args.rows, args.columns, [&](std::int64_t r) {
      const T* y = static_cast<const T*>(args.y) + r * args.columns;
      const T* dy = static_cast<const T*>(args.dy) + r * args.columns;
      T* dx = static_cast<T*>(args.dx) + r * args.columns;
      Vec<A> products{};
      for_each_vector<A>(args.columns, [&](std::int64_t i, auto count) {
        products += load_n(y + i, count) * load_n(dy + i, count);
      });
      const A dot = reduce_add(products);
      for_each_vector<A>(args.columns, [&](std::int64_t i, auto count) {
        store_n(dx + i, load_n(y + i, count) * (load_n(dy + i, count) - dot), count);
      });
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(SoftmaxForward)
DTN_DISPATCH(SoftmaxBackward)
