// Normalization of rows by their length; see rms_norm.h for the formulas. A row is read twice, the
// second time from the first-level cache.
#include "kernels/norm/rms_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

constexpr int kRowsTogether = 4;  // so that their chains of additions overlap

// Returns the factor of a row, from its sum of squares. If eps is larger than the length, ScaleNorm
// divides by eps. The factor is then exactly 1 / eps, and the backward pass tests this.
template <class A>
A factor_of(RmsNormKind kind, A squares, std::int64_t channels, A eps) {
  const bool rms = kind == RmsNormKind::kRms;
  const A under_root = rms ? squares / static_cast<A>(channels) + eps : squares;
  const A factor = 1 / sqrt(broadcast(under_root))[0];
  return !rms && factor > 1 / eps ? 1 / eps : factor;
}

// Returns s_c(dxhat xhat) factor, from dot = sum_c dxhat x.
template <class A>
A slope_of(const RmsNormBackward& args, A factor, A dot) {
  if (args.kind == RmsNormKind::kRms) return factor * dot / static_cast<A>(args.channels) * factor;
  return factor < 1 / static_cast<A>(args.eps) ? factor * dot * factor : A(0);
}

template <class T, int kRows>
void forward_rows(const RmsNormForward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const T* x = static_cast<const T*>(args.x) + row * channels;
  const A* weight = static_cast<const A*>(args.weight);
  T* y = static_cast<T*>(args.y) + row * channels;
  Vec<A> squares[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> v = load_n(x + r * channels + c, count);
      squares[r] += v * v;
    }
  });
  A factor[kRows];
  for (int r = 0; r < kRows; ++r) {
    factor[r] = factor_of(args.kind, reduce_add(squares[r]), channels, static_cast<A>(args.eps));
    static_cast<A*>(args.factor)[row + r] = factor[r];
  }
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> w = load_n(weight + c, count);
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> v = load_n(x + r * channels + c, count);
      store_n(y + r * channels + c, Vec<A>(v * factor[r] * w), count);
    }
  });
}

// dweight is the partial sum of this chunk of rows.
template <class T, int kRows>
void backward_rows(const RmsNormBackward& args, std::int64_t row, AccumulatorOf<T>* dweight) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const A* weight = static_cast<const A*>(args.weight);
  const A* factor = static_cast<const A*>(args.factor) + row;
  const T* x = static_cast<const T*>(args.x) + row * channels;
  const T* dy = static_cast<const T*>(args.dy) + row * channels;

  Vec<A> dot[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> w = load_n(weight + c, count);
    Vec<A> dw = load_n(dweight + c, count);
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> gx = load_n(dy + r * channels + c, count) * load_n(x + r * channels + c, count);
      dw += gx * factor[r];
      dot[r] += gx * w;
    }
    store_n(dweight + c, dw, count);
  });
  if (!args.dx) return;

  T* dx = static_cast<T*>(args.dx) + row * channels;
  const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + row * channels : nullptr;
  for (int r = 0; r < kRows; ++r) {
    const A slope = slope_of(args, factor[r], reduce_add(dot[r]));
    const std::int64_t first = r * channels;
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      const Vec<A> g = load_n(dy + first + c, count) * load_n(weight + c, count);
      Vec<A> d = (g - load_n(x + first + c, count) * slope) * factor[r];
      if (add) d += load_n(add + first + c, count);
      store_n(dx + first + c, d, count);
    });
  }
}

}  // namespace

void run(CpuQueue&, const RmsNormForward& args) {
  if (args.rows == 0 || args.channels == 0) return;
  for_dtype("RmsNormForward", args.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_ranges(args.rows, row_grain(args.channels), [&](std::int64_t begin, std::int64_t end) {
      for_each_group<kRowsTogether>(
          begin, end, [&](std::int64_t row, auto rows) { forward_rows<T, rows>(args, row); });
    });
  });
}

void run(CpuQueue& queue, const RmsNormBackward& args) {
  for_dtype("RmsNormBackward", args.dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = AccumulatorOf<T>;
    add_row_sums<A, 1>(queue, args.rows, args.channels, kRowsTogether, {args.dweight},
                       [&](std::int64_t begin, std::int64_t end, A** sums) {
                         for_each_group<kRowsTogether>(begin, end, [&](std::int64_t row, auto n) {
                           backward_rows<T, n>(args, row, sums[0]);
                         });
                       });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::RmsNormForward)
DTN_DISPATCH(dtn::RmsNormBackward)
