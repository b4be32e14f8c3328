// Reductions on short vectors; see reduce.h. If the last dimension is reduced, an output is reduced
// from contiguous runs. If it is kept, blocks of outputs are reduced row by row. Work that is too
// large for one task is split into chunks that depend only on the shape; their results are combined
// in order.
#include "kernels/primitive/reduce.h"

#include <algorithm>
#include <limits>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kEnoughTasks = 64, kMinWork = 1 << 14;

struct Sum {
  static constexpr double kIdentity = 0;
  template <class V>
  static V of(V sum, V x) {
    return sum + x;
  }
};
struct Max {
  static constexpr double kIdentity = -std::numeric_limits<double>::infinity();
  template <class V>
  static V of(V largest, V x) {
    return ((largest > x) | (largest != largest)) ? largest : x;
  }
};

// Some of the dimensions of x, with their strides.
struct Loops {
  Extents extents;
  Strides strides;
  std::int64_t count = 1;

  void add(std::int64_t size, std::int64_t step) {
    extents.size[extents.rank] = size;
    strides.step[extents.rank++] = step;
    count *= size;
  }
  std::int64_t offset(std::int64_t index) const {
    std::int64_t at = 0;
    for (int d = extents.rank - 1; d > 0; --d) {
      at += index % extents.size[d] * strides.step[d];
      index /= extents.size[d];
    }
    return extents.rank > 0 ? at + index * strides.step[0] : 0;
  }
};

// Loads terms. Lanes from `count` on get the identity of the operation.
template <class Op, class T, class N>
auto load_terms(const T* x, N count) {
  auto v = load_n(x, count);
  if constexpr (std::is_same_v<N, int> && std::is_same_v<Op, Max>) {
    for (int i = count; i < kLanes<AccumulatorOf<T>>; ++i) v[i] = Op::kIdentity;
  }
  return v;
}

// Each output is a task. Its terms are pieces of contiguous runs.
template <class T, class Op>
struct RowReduction {
  using A = AccumulatorOf<T>;
  using V = Vec<A>;
  static constexpr std::int64_t kBlock = 1, kPiece = 4096;
  const T* x;
  std::int64_t width, pieces;
  Loops kept, reduced;

  RowReduction(const Reduce& args, std::int64_t last) : x(static_cast<const T*>(args.x)) {
    width = last;
    pieces = (width + kPiece - 1) / kPiece;
  }
  std::int64_t tasks() const { return kept.count; }
  std::int64_t terms() const { return reduced.count * pieces; }
  std::int64_t outputs(std::int64_t) const { return 1; }
  std::int64_t first_output(std::int64_t task) const { return task; }

  A run_of(const T* from, std::int64_t n) const {
    const V nothing = broadcast(static_cast<A>(Op::kIdentity));
    V v[4] = {nothing, nothing, nothing, nothing};
    constexpr int lanes = kLanes<A>;
    std::int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      for (int k = 0; k < 4; ++k) v[k] = Op::of(v[k], load(from + i + k * lanes));
    }
    for_each_vector<A>(n - i, [&](std::int64_t j, auto count) {
      v[0] = Op::of(v[0], load_terms<Op>(from + i + j, count));
    });
    const V all = Op::of(Op::of(v[0], v[1]), Op::of(v[2], v[3]));
    if constexpr (std::is_same_v<Op, Sum>) {
      return reduce_add(all);
    } else {
      A result = all[0];
      for (int k = 1; k < lanes; ++k) result = Op::of(result, static_cast<A>(all[k]));
      return result;
    }
  }

  void partial(std::int64_t task, std::int64_t begin, std::int64_t end, A* to) const {
    const T* from = x + kept.offset(task);
    A result = static_cast<A>(Op::kIdentity);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t at = t % pieces * kPiece;
      result = Op::of(result,
                      run_of(from + reduced.offset(t / pieces) + at, std::min(kPiece, width - at)));
    }
    *to = result;
  }
};

// Each block of adjacent outputs is a task. Its terms are rows.
template <class T, class Op>
struct ColumnReduction {
  using A = AccumulatorOf<T>;
  using V = Vec<A>;
  static constexpr std::int64_t kBlock = 256, kRows = 64;
  const T* x;
  std::int64_t width, blocks;
  Loops kept, reduced;

  ColumnReduction(const Reduce& args, std::int64_t last) : x(static_cast<const T*>(args.x)) {
    width = last;
    blocks = (width + kBlock - 1) / kBlock;
  }
  std::int64_t tasks() const { return kept.count * blocks; }
  std::int64_t terms() const { return reduced.count; }
  std::int64_t outputs(std::int64_t task) const {
    return std::min(kBlock, width - task % blocks * kBlock);
  }
  std::int64_t first_output(std::int64_t task) const {
    return task / blocks * width + task % blocks * kBlock;
  }

  // Reduces a few rows at a time separately, which halves the digits lost in long columns.
  void partial(std::int64_t task, std::int64_t begin, std::int64_t end, A* to) const {
    const std::int64_t n = outputs(task);
    const T* from = x + kept.offset(task / blocks) + task % blocks * kBlock;
    A few[kBlock];
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<A>(Op::kIdentity);
    for (std::int64_t first = begin; first < end; first += kRows) {
      for (std::int64_t i = 0; i < n; ++i) few[i] = static_cast<A>(Op::kIdentity);
      const std::int64_t stop = std::min(first + kRows, end);
      for (std::int64_t r = first; r < stop; ++r) {
        const T* row = from + reduced.offset(r);
        for_each_vector<A>(n, [&](std::int64_t i, auto count) {
          store_n(few + i, Op::of(load_n(few + i, count), load_n(row + i, count)), count);
        });
      }
      for_each_vector<A>(n, [&](std::int64_t i, auto count) {
        store_n(to + i, Op::of(load_n(to + i, count), load_n(few + i, count)), count);
      });
    }
  }
};

template <class T, class Op, class Tasks>
void reduce(CpuQueue& queue, const Reduce& args, const Tasks& tasks) {
  using A = AccumulatorOf<T>;
  const std::int64_t count = tasks.tasks(), terms = tasks.terms();
  const std::int64_t work = tasks.kept.count * tasks.reduced.count * tasks.width / count;
  std::int64_t chunks = 1;
  if (count < kEnoughTasks) {
    chunks = std::min((kEnoughTasks + count - 1) / count, (work + kMinWork - 1) / kMinWork);
    chunks = std::max<std::int64_t>(std::min(chunks, terms), 1);
  }
  const std::int64_t per_chunk = (terms + chunks - 1) / chunks;
  chunks = (terms + per_chunk - 1) / per_chunk;
  Scratch::Scope scope(queue.scratch());
  A* partials = scope.take<A>(count * chunks * Tasks::kBlock);
  const std::int64_t grain = std::max<std::int64_t>(kMinWork / std::max<std::int64_t>(work, 1), 1);
  parallel_ranges(count * chunks, grain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t begin = i % chunks * per_chunk;
      tasks.partial(i / chunks, begin, std::min(begin + per_chunk, terms),
                    partials + i * Tasks::kBlock);
    }
  });
  const A scale = static_cast<A>(args.scale);
  parallel_ranges(count, kMinWork / Tasks::kBlock, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t task = from; task < to; ++task) {
      const A* parts = partials + task * chunks * Tasks::kBlock;
      const std::int64_t first = tasks.first_output(task);
      for (std::int64_t i = 0; i < tasks.outputs(task); ++i) {
        A result = parts[i];
        for (std::int64_t c = 1; c < chunks; ++c) {
          result = Op::of(result, parts[c * Tasks::kBlock + i]);
        }
        if (std::is_same_v<Op, Sum>) result *= scale;
        if (args.y_dtype == args.dtype) {
          static_cast<T*>(args.y)[first + i] = static_cast<T>(result);
        } else {
          static_cast<A*>(args.y)[first + i] = result;
        }
      }
    }
  });
}

template <class T, class Op>
void reduce(CpuQueue& queue, const Reduce& args) {
  const int last = args.extents.rank - 1;
  auto fill = [&](auto tasks) {
    std::int64_t step = args.extents.size[last];
    std::int64_t steps[kMaxDims] = {};
    for (int d = last - 1; d >= 0; --d) {
      steps[d] = step;
      step *= args.extents.size[d];
    }
    for (int d = 0; d < last; ++d) {
      (args.reduced[d] ? tasks.reduced : tasks.kept).add(args.extents.size[d], steps[d]);
    }
    reduce<T, Op>(queue, args, tasks);
  };
  if (args.reduced[last]) {
    fill(RowReduction<T, Op>(args, args.extents.size[last]));
  } else {
    fill(ColumnReduction<T, Op>(args, args.extents.size[last]));
  }
}

}  // namespace

void run(CpuQueue& queue, const Reduce& args) {
  for_dtype("Reduce", args.dtype, [&](auto t) {
    using T = decltype(t);
    args.kind == Reduction::kSum ? reduce<T, Sum>(queue, args) : reduce<T, Max>(queue, args);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(Reduce)
