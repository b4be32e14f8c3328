// Elementwise kernels, limited by memory bandwidth: one pass, in chunks that fit the cache.
// See pointwise.h for the formulas.
#include "kernels/pointwise.h"

#include "dtn/core/parallel.h"
#include "kernels/for_dtype.h"
#include "kernels/isa.h"
#include "kernels/simd.h"

namespace dtn::DTN_ISA {
namespace {

// Elements per chunk: a multiple of every vector width, so only the last chunk has a tail.
constexpr std::int64_t kChunk = 1 << 15;

template <class To, class From>
void cast_range(const From* x, To* y, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    if (x != y) std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (!std::is_same_v<From, double> && !std::is_same_v<To, double>) {
    for_each_vector<float>(
        n, [&](std::int64_t i, auto count) { store_n(y + i, load_n(x + i, count), count); });
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = bfloat16(static_cast<float>(x[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = static_cast<To>(static_cast<AccumulatorOf<From>>(x[i]));
  }
}

template <class T>
void add(const Add& args) {
  auto* a = static_cast<const T*>(args.a);
  auto* b = static_cast<const T*>(args.b);
  auto* y = static_cast<T*>(args.y);
  parallel_ranges(args.count, kChunk, [=](std::int64_t begin, std::int64_t end) {
    for_each_vector<AccumulatorOf<T>>(end - begin, [=](std::int64_t i, auto count) {
      i += begin;
      store_n(y + i, load_n(a + i, count) + load_n(b + i, count), count);
    });
  });
}

template <class T>
void scale_rows(const ScaleRows& args) {
  using A = AccumulatorOf<T>;
  auto* scale = static_cast<const A*>(args.scale);
  auto* x = static_cast<const T*>(args.x);
  auto* residual = static_cast<const T*>(args.residual);
  auto* y = static_cast<T*>(args.y);
  parallel_ranges(args.count, kChunk, [=, &args](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      std::int64_t row = begin / args.per_scale;
      std::int64_t left = (row + 1) * args.per_scale - begin;
      std::int64_t n = left < end - begin ? left : end - begin;
      Vec<A> s = broadcast(scale[row]);
      for_each_vector<A>(n, [=](std::int64_t i, auto count) {
        i += begin;
        Vec<A> v = s * load_n(x + i, count);
        if (residual) v = v + load_n(residual + i, count);
        store_n(y + i, v, count);
      });
      begin += n;
    }
  });
}

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

// sum[i] += x[0, i] + ... + x[rows - 1, i], four rows at a time to spare the traffic of `sum`.
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

// Rows are cut into chunks by shape alone; each has a row of partial sums, added in order.
template <class T>
void sum_rows(CpuQueue& queue, const SumRows& args) {
  using A = AccumulatorOf<T>;
  constexpr std::int64_t kColumns = 2048;  // per task: the partial sums stay in the first cache
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
void patchify(const Patchify& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t p = args.patch, grid_h = args.height / p, grid_w = args.width / p;
  const std::int64_t patch_size = args.channels * p * p;
  auto* images = static_cast<const A*>(args.images);
  auto* patches = static_cast<T*>(args.patches);
  parallel_for(args.batch * grid_h, [=, &args](std::int64_t row_of_patches) {
    std::int64_t b = row_of_patches / grid_h, gy = row_of_patches % grid_h;
    T* out = patches + row_of_patches * grid_w * patch_size;
    for (std::int64_t line = 0; line < args.channels * p; ++line) {  // (c, py)
      std::int64_t c = line / p, py = line % p;
      const A* x = images + ((b * args.channels + c) * args.height + gy * p + py) * args.width;
      for (std::int64_t gx = 0; gx < grid_w; ++gx) {
        T* y = out + gx * patch_size + line * p;
        for_each_vector<A>(p, [=](std::int64_t i, auto count) {
          store_n(y + i, load_n(x + gx * p + i, count), count);
        });
      }
    }
  });
}

}  // namespace

void run(CpuQueue&, const Cast& args) {
  for_dtype("Cast", args.from, [&](auto from) {
    for_dtype("Cast", args.to, [&](auto to) {
      auto* x = static_cast<const decltype(from)*>(args.x);
      auto* y = static_cast<decltype(to)*>(args.y);
      parallel_ranges(args.count, kChunk, [=](std::int64_t begin, std::int64_t end) {
        cast_range(x + begin, y + begin, end - begin);
      });
    });
  });
}

void run(CpuQueue&, const Add& args) {
  for_dtype("Add", args.dtype, [&](auto t) { add<decltype(t)>(args); });
}

void run(CpuQueue&, const ScaleRows& args) {
  for_dtype("ScaleRows", args.dtype, [&](auto t) { scale_rows<decltype(t)>(args); });
}

void run(CpuQueue&, const AddToRows& args) {
  for_dtype("AddToRows", args.dtype, [&](auto t) { add_to_rows<decltype(t)>(args); });
}

void run(CpuQueue& queue, const SumRows& args) {
  for_dtype("SumRows", args.dtype, [&](auto t) { sum_rows<decltype(t)>(queue, args); });
}

void run(CpuQueue&, const Patchify& args) {
  for_dtype("Patchify", args.dtype, [&](auto t) { patchify<decltype(t)>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(Cast)
DTN_DISPATCH(Add)
DTN_DISPATCH(ScaleRows)
DTN_DISPATCH(AddToRows)
DTN_DISPATCH(SumRows)
DTN_DISPATCH(Patchify)
