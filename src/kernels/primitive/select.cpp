// Slices selected by an index; see select.h.
#include "kernels/primitive/select.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const SelectForward& args) {
  if (args.inner == 0) return;
  for_dtype("SelectForward", args.dtype, [&](auto t) {
    using T = decltype(t);
    const T* x = static_cast<const T*>(args.x);
    T* y = static_cast<T*>(args.y);
    const T nan = static_cast<T>(std::numeric_limits<AccumulatorOf<T>>::quiet_NaN());
    const std::size_t bytes = static_cast<std::size_t>(args.inner) * sizeof(T);
    for_each_row(args.outer * args.count, args.inner, [=](std::int64_t r) {
      const std::int64_t from = args.index[r % args.count];
      T* to = y + r * args.inner;
      if (0 <= from && from < args.extent) {
        std::memcpy(to, x + (r / args.count * args.extent + from) * args.inner, bytes);
      } else {
        std::fill_n(to, args.inner, nan);
      }
    });
  });
}

void run(CpuQueue&, const SelectBackward& args) {
  constexpr std::int64_t kColumns = 64;  // per task
  const std::int64_t blocks = (args.inner + kColumns - 1) / kColumns;
  for_dtype("SelectBackward", args.dtype, [&](auto t) {
    using T = decltype(t);
    using A = AccumulatorOf<T>;
    parallel_for(args.outer * blocks, [&](std::int64_t task) {
      const std::int64_t o = task / blocks, first = task % blocks * kColumns;
      const std::int64_t columns = std::min(kColumns, args.inner - first);
      const T* dy = static_cast<const T*>(args.dy) + o * args.count * args.inner + first;
      A* dx = static_cast<A*>(args.dx) + o * args.extent * args.inner + first;
      for (std::int64_t r = 0; r < args.count; ++r) {
        const std::int64_t to = args.index[r];
        if (to < 0 || to >= args.extent) continue;
        for_each_vector<A>(columns, [&](std::int64_t i, auto count) {
          A* sum = dx + to * args.inner + i;
          store_n(sum, load_n(sum, count) + load_n(dy + r * args.inner + i, count), count);
        });
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(SelectForward)
DTN_DISPATCH(SelectBackward)
