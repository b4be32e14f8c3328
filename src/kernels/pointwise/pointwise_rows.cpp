// Kernels over rows, and the mean of many values. Sums are split into parts that depend only on the
// shape and are added in order. See pointwise.h for the formulas.
#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::DTN_ISA {
namespace {

// Elements per task: a multiple of every vector width.
constexpr std::int64_t kChunk = 1 << 15;
// Columns per task of a sum: the partial sums stay in the first-level cache.
constexpr std::int64_t kColumns = 2048;

template <class T>
void add_to_rows(const AddToRows& args) {
  using A = AccumulatorOf<T>;
  auto* x = static_cast<const T*>(args.x);
  auto* addend = static_cast<const A*>(args.addend);
  auto* y = static_cast<T*>(args.y);
  std::int64_t columns = args.columns;
  parallel_ranges(args.rows * columns, kChunk, [=](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t column = begin % columns;
      std::int64_t n = columns - column < end - begin ? columns - column : end - begin;
      for_each_vector<A>(n, [=](std::int64_t i, auto count) {
        Vec<A> v = load_n(x + begin + i, count) + load_n(addend + column + i, count);
        store_n(y + begin + i, v, count);
      });
      begin += n;
    }
  });
}

// sum[i] += x[0, i] + ... + x[rows - 1, i], four rows at a time to reduce the traffic of `sum`.
template <class T>
void accumulate_rows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t columns,
                     AccumulatorOf<T>* sum) {
  using A = AccumulatorOf<T>;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* row = x + r * stride;
    for_each_vector<A>(columns, [=](std::int64_t i, auto count) {
      Vec<A> s01 = load_n(row + i, count) + load_n(row + stride + i, count);
      Vec<A> s23 = load_n(row + 2 * stride + i, count) + load_n(row + 3 * stride + i, count);
      store_n(sum + i, load_n(sum + i, count) + (s01 + s23), count);
    });
  }
  for (; r < rows; ++r) {
    const T* row = x + r * stride;
    for_each_vector<A>(columns, [=](std::int64_t i, auto count) {
      store_n(sum + i, load_n(sum + i, count) + load_n(row + i, count), count);
    });
  }
}

// Splits the rows into chunks that depend only on the shape. Each chunk has a row of partial sums,
// and these are added in order.
template <class T>
void sum_rows(CpuQueue& queue, const SumRows& args) {
  using A = AccumulatorOf<T>;
  std::int64_t rows = args.rows, columns = args.columns;
  if (rows <= 0 || columns <= 0) return;
  std::int64_t chunk_rows = kChunk / columns / 4 * 4;
  chunk_rows = chunk_rows < 64 ? 64 : chunk_rows > 1024 ? 1024 : chunk_rows;
  std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  std::int64_t blocks = (columns + kColumns - 1) / kColumns;
  auto* x = static_cast<const T*>(args.x);
  auto* out = static_cast<A*>(args.out);
  Scratch::Scope scope(queue.scratch());
  A* partial = chunks == 1 ? out : scope.take<A>(chunks * columns);  // [chunks, columns]
  parallel_for(chunks * blocks, [=](std::int64_t task) {
    std::int64_t chunk = task / blocks, column = task % blocks * kColumns;
    std::int64_t n = columns - column < kColumns ? columns - column : kColumns;
    std::int64_t row = chunk * chunk_rows;
    std::int64_t m = rows - row < chunk_rows ? rows - row : chunk_rows;
    A* sum = partial + chunk * columns + column;
    if (chunks > 1) std::memset(sum, 0, static_cast<std::size_t>(n) * sizeof(A));
    accumulate_rows(x + row * columns + column, m, columns, n, sum);
  });
  if (chunks == 1) return;
  parallel_ranges(columns, 512, [=](std::int64_t begin, std::int64_t end) {
    accumulate_rows(partial + begin, chunks, columns, end - begin, out + begin);
  });
}

template <class T>
void mean_rows(CpuQueue& queue, const MeanRows& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t rows = args.rows, columns = args.columns;
  if (args.batch * rows * columns == 0) return;
  const std::int64_t blocks = (columns + kColumns - 1) / kColumns;
  auto* x = static_cast<const T*>(args.x);
  auto* y = static_cast<T*>(args.y);
  Scratch::Scope scope(queue.scratch());
  A* sums = scope.take<A>(args.batch * columns);  // [B, C]
  parallel_for(args.batch * blocks, [=](std::int64_t task) {
    const std::int64_t b = task / blocks, column = task % blocks * kColumns;
    const std::int64_t n = columns - column < kColumns ? columns - column : kColumns;
    A* sum = sums + b * columns + column;
    std::memset(sum, 0, static_cast<std::size_t>(n) * sizeof(A));
    accumulate_rows(x + b * rows * columns + column, rows, columns, n, sum);
    T* out = y + b * columns + column;
    for_each_vector<A>(n, [=](std::int64_t i, auto count) {
      store_n(out + i, load_n(sum + i, count) / static_cast<A>(rows), count);
    });
  });
}

// Each task computes one row and copies it to its other rows.
template <class T>
void spread_mean(const SpreadMean& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t rows = args.rows, columns = args.columns;
  if (args.batch * rows * columns == 0) return;
  const std::int64_t task_rows = kChunk / columns < 1 ? 1 : kChunk / columns;
  const std::int64_t tasks = (rows + task_rows - 1) / task_rows;  // per image
  auto* dy = static_cast<const T*>(args.dy);
  auto* dx = static_cast<T*>(args.dx);
  parallel_for(args.batch * tasks, [=](std::int64_t task) {
    const std::int64_t b = task / tasks, begin = task % tasks * task_rows;
    const std::int64_t end = begin + task_rows < rows ? begin + task_rows : rows;
    const T* mean = dy + b * columns;
    T* row = dx + (b * rows + begin) * columns;
    for_each_vector<A>(columns, [=](std::int64_t i, auto count) {
      store_n(row + i, load_n(mean + i, count) / static_cast<A>(rows), count);
    });
    for (std::int64_t r = 1; r < end - begin; ++r) {
      std::memcpy(row + r * columns, row, static_cast<std::size_t>(columns) * sizeof(T));
    }
  });
}

void copy_rows(const CopyRows& args) {
  if (args.columns <= 0) return;
  const auto element = static_cast<std::int64_t>(size_of(args.dtype));
  const std::int64_t task_rows = kChunk / args.columns < 1 ? 1 : kChunk / args.columns;
  auto* x = static_cast<const unsigned char*>(args.x);
  auto* y = static_cast<unsigned char*>(args.y);
  parallel_ranges(args.rows, task_rows, [=, &args](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(y + r * args.y_stride * element, x + r * args.x_stride * element,
                  static_cast<std::size_t>(args.columns * element));
    }
  });
}

template <class A>
void mean(CpuQueue& queue, const Mean& args) {
  auto* x = static_cast<const A*>(args.x);
  auto* y = static_cast<A*>(args.y);
  const std::int64_t chunks = args.count > 0 ? (args.count + kChunk - 1) / kChunk : 0;
  Scratch::Scope scope(queue.scratch());
  double* partial = scope.take<double>(chunks);  // [chunks]
  parallel_ranges(args.count, kChunk, [=](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += static_cast<double>(x[i]);
    partial[begin / kChunk] = sum;
  });
  double sum = 0;
  for (std::int64_t i = 0; i < chunks; ++i) sum += partial[i];
  *y = static_cast<A>((args.accumulate ? static_cast<double>(*y) : 0.0) + args.scale * sum);
}

}  // namespace

void run(CpuQueue&, const AddToRows& args) {
  for_dtype("AddToRows", args.dtype, [&](auto t) { add_to_rows<decltype(t)>(args); });
}

void run(CpuQueue& queue, const SumRows& args) {
  for_dtype("SumRows", args.dtype, [&](auto t) { sum_rows<decltype(t)>(queue, args); });
}

void run(CpuQueue& queue, const MeanRows& args) {
  for_dtype("MeanRows", args.dtype, [&](auto t) { mean_rows<decltype(t)>(queue, args); });
}

void run(CpuQueue&, const SpreadMean& args) {
  for_dtype("SpreadMean", args.dtype, [&](auto t) { spread_mean<decltype(t)>(args); });
}

void run(CpuQueue&, const CopyRows& args) { copy_rows(args); }

void run(CpuQueue& queue, const Mean& args) {
  for_accumulator_dtype("Mean", args.dtype, [&](auto t) { mean<decltype(t)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(AddToRows)
DTN_DISPATCH(SumRows)
DTN_DISPATCH(MeanRows)
DTN_DISPATCH(SpreadMean)
DTN_DISPATCH(CopyRows)
DTN_DISPATCH(Mean)
