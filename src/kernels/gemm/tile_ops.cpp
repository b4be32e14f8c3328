#include "kernels/gemm/tile_ops.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/transpose.h"

namespace dtn::DTN_ISA {
namespace {

template <class From, class To>
void convert(const ConvertTile& t) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const From* src = static_cast<const From*>(t.src) + r * t.ld_src;
    To* dst = static_cast<To*>(t.dst) + r * t.ld_dst;
    for_each_vector<float>(t.cols, [&](std::int64_t c, auto n) {
      VecF v = load_n(src + c, n);
      if (t.accumulate) v += load_n(dst + c, n);
      store_n(dst + c, v, n);
    });
  }
}

// Transposes square blocks in registers.
template <class From>
void transpose(const TransposeTile& t) {
  constexpr int kBlock = kLanes<float>;
  const From* src = static_cast<const From*>(t.src);
  for_each_vector<float>(t.rows, [&](std::int64_t r, auto height) {
    for_each_vector<float>(t.cols, [&](std::int64_t c, auto width) {
      VecF x[kBlock];
#pragma GCC unroll 16
      for (int i = 0; i < kBlock; ++i) {
        x[i] = i < height ? load_n(src + (r + i) * t.ld_src + c, width) : VecF{};
      }
      transpose_lanes(x);
#pragma GCC unroll 16
      for (int j = 0; j < kBlock; ++j) {
        if (j < width) store_n(t.dst + (c + j) * t.ld_dst + r, x[j], height);
      }
    });
  });
}

// Sums four vectors of columns at a time over the rows, in registers.
template <class T>
void column_sums(const ColumnSums& s) {
  using A = AccumulatorOf<T>;
  constexpr int kWide = 4;
  constexpr std::int64_t kStep = kWide * kLanes<A>;
  const T* x = static_cast<const T*>(s.x);
  A* sums = static_cast<A*>(s.sums);
  std::int64_t c = 0;
  for (; c + kStep <= s.cols; c += kStep) {
    Vec<A> total[kWide] = {};
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const T* row = x + r * s.ld + c;
      for (int j = 0; j < kWide; ++j) total[j] += load(row + j * kLanes<A>);
    }
    for (int j = 0; j < kWide; ++j) {
      A* to = sums + c + j * kLanes<A>;
      store(to, load(to) + total[j]);
    }
  }
  for_each_vector<A>(s.cols - c, [&](std::int64_t i, auto n) {
    Vec<A> total = {};
    for (std::int64_t r = 0; r < s.rows; ++r) total += load_n(x + r * s.ld + c + i, n);
    store_n(sums + c + i, Vec<A>(load_n(sums + c + i, n) + total), n);
  });
}

template <class T>
void sum_partials(const SumPartials& s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const T* partials = static_cast<const T*>(s.partials) + r * s.ld;
    T* c = static_cast<T*>(s.c) + r * s.ldc;
    for_each_vector<T>(s.cols, [&](std::int64_t i, auto n) {
      Vec<T> total = load_n(c + i, n);
      for (std::int64_t p = 0; p < s.parts; ++p) {
        total += load_n(partials + p * s.part_stride + i, n);
      }
      store_n(c + i, total, n);
    });
  }
}

}  // namespace

void run(CpuQueue&, const ConvertTile& t) {
  bool upcast = t.from == DType::kBFloat16;
  if (t.from == t.to) return upcast ? convert<bfloat16, bfloat16>(t) : convert<float, float>(t);
  upcast ? convert<bfloat16, float>(t) : convert<float, bfloat16>(t);
}

void run(CpuQueue&, const TransposeTile& t) {
  t.from == DType::kBFloat16 ? transpose<bfloat16>(t) : transpose<float>(t);
}

void run(CpuQueue&, const ColumnSums& s) {
  for_dtype("ColumnSums", s.dtype, [&](auto t) { column_sums<decltype(t)>(s); });
}

void run(CpuQueue&, const SumPartials& s) {
  s.dtype == DType::kFloat64 ? sum_partials<double>(s) : sum_partials<float>(s);
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ConvertTile)
DTN_DISPATCH(TransposeTile)
DTN_DISPATCH(ColumnSums)
DTN_DISPATCH(SumPartials)
