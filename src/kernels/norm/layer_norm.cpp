// Layer normalization by rows; see layer_norm.h for the formulas. A row is read three times, twice
// from the first-level cache.
#include "kernels/norm/layer_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/set_sums.h"
#include "kernels/pointwise/gate_rows.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const Add&);
void run(CpuQueue&, const ScaleRows&);

namespace {

// Returns the offset of the parameters of a row.
std::int64_t parameters_of(const ParameterSets& sets, std::int64_t row) {
  return sets.rows > 0 ? row / sets.rows * sets.stride : 0;
}

// Returns the offset of the gate of a row.
std::int64_t gate_of(const ParameterSets& sets, std::int64_t row, std::int64_t channels) {
  return row / sets.rows * channels;
}

constexpr int kRowsTogether = static_cast<int>(kSetChunkRows);

// Loads gains, which may be stored as scales.
template <class A, class N>
Vec<A> load_gains(const A* weight, bool scales, N count) {
  const Vec<A> w = load_n(weight, count);
  return scales ? w + A(1) : w;
}

// Calls f(row, count) for groups of rows that cover [begin, end). The rows of a group share their
// parameters. count is the constant kRowsTogether, or 1 for the last rows of a set.
template <class F>
void for_each_in_sets(const ParameterSets& sets, std::int64_t begin, std::int64_t end, F&& f) {
  while (begin < end) {
    std::int64_t last = sets.rows > 0 ? (begin / sets.rows + 1) * sets.rows : end;
    if (last > end) last = end;
    for_each_group<kRowsTogether>(begin, last, f);
    begin = last;
  }
}

// Computes the residual sum of gated rows, which stays in the first-level cache.
template <class T, int kRows>
void add_gated_rows(const LayerNormForward& args, std::int64_t row) {
  const std::int64_t channels = args.channels;
  const auto* gate =
      static_cast<const AccumulatorOf<T>*>(args.gate) + gate_of(args.sets, row, channels);
  for (std::int64_t at = row * channels; at < (row + kRows) * channels; at += channels) {
    gate_row<true>(channels, static_cast<const T*>(args.branch) + at, gate,
                   static_cast<const T*>(args.residual) + at, static_cast<T*>(args.sum) + at);
  }
}

// Normalizes kRows rows at a time, so that their chains of additions overlap. The mean is computed
// in two steps: a rough mean, and the mean of the differences from it. So neither mean nor variance
// loses digits when |mean| is much larger than the standard deviation.
template <class T, int kRows>
void forward_rows(const LayerNormForward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const T* x = static_cast<const T*>(args.x) + row * channels;
  const std::int64_t parameters = parameters_of(args.sets, row);
  const A* weight = static_cast<const A*>(args.weight) + parameters;
  const A* bias = static_cast<const A*>(args.bias) + parameters;
  T* y = static_cast<T*>(args.y) + row * channels;

  Vec<A> sum[kRows] = {}, rest[kRows] = {}, squares[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    for (int r = 0; r < kRows; ++r) sum[r] += load_n(x + r * channels + c, count);
  });
  A rough[kRows], rstd[kRows], shift[kRows];
  for (int r = 0; r < kRows; ++r) rough[r] = reduce_add(sum[r]) / static_cast<A>(channels);
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    for (int r = 0; r < kRows; ++r) {
      Vec<A> d = keep_n(load_n(x + r * channels + c, count) - rough[r], count);
      rest[r] += d;
      squares[r] += d * d;
    }
  });
  for (int r = 0; r < kRows; ++r) {
    const A delta = reduce_add(rest[r]) / static_cast<A>(channels);
    const A var = reduce_add(squares[r]) / static_cast<A>(channels) - delta * delta;
    rstd[r] = rsqrt(broadcast(var + static_cast<A>(args.eps)))[0];
    shift[r] = -delta * rstd[r];
    static_cast<A*>(args.mean)[row + r] = (rough[r] - static_cast<A>(x[r * channels])) + delta;
    static_cast<A*>(args.rstd)[row + r] = rstd[r];
    if (args.row_mean) static_cast<A*>(args.row_mean)[row + r] = rough[r] + delta;
    if (args.row_std) static_cast<A*>(args.row_std)[row + r] = 1 / rstd[r];
  }
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> w = load_gains(weight + c, args.sets.scales, count);
    const Vec<A> b = load_n(bias + c, count);
    for (int r = 0; r < kRows; ++r) {
      Vec<A> xhat = (load_n(x + r * channels + c, count) - rough[r]) * rstd[r] + shift[r];
      store_n(y + r * channels + c, xhat * w + b, count);
    }
  });
}

// Computes dbranch of a row from the stored dx.
template <class T>
void scale_row(const LayerNormBackward& args, std::int64_t row) {
  using A = AccumulatorOf<T>;
  const A* scales = static_cast<const A*>(args.row_scale);
  const A scale = scales ? scales[row / args.rows_per_scale] : A(1);
  const T* dx = static_cast<const T*>(args.dx) + row * args.channels;
  T* dbranch = static_cast<T*>(args.dbranch) + row * args.channels;
  for_each_vector<A>(args.channels, [=](std::int64_t c, auto count) {
    store_n(dbranch + c, Vec<A>(load_n(dx + c, count) * scale), count);
  });
}

// Computes the gradients of a gated branch from the stored dx of kRows rows.
template <class T, int kRows>
void gradients_of_gate(const LayerNormBackward& args, std::int64_t row, AccumulatorOf<T>* dgate) {
  const std::int64_t channels = args.channels, at = row * channels;
  const auto* gate =
      static_cast<const AccumulatorOf<T>*>(args.gate) + gate_of(args.sets, row, channels);
  gate_backward_rows<kRows, true, true>(channels, static_cast<const T*>(args.branch) + at, gate,
                                        static_cast<const T*>(args.dx) + at,
                                        static_cast<T*>(args.dbranch) + at, dgate);
}

// Processes kRows rows at a time, so that the running parameter gradients are loaded and stored
// once for all of them. dweight, dbias and dgate are the partial sums of this chunk of rows.
template <class T, int kRows>
void backward_rows(const LayerNormBackward& args, std::int64_t row, AccumulatorOf<T>* dweight,
                   AccumulatorOf<T>* dbias, AccumulatorOf<T>* dgate) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const A* weight = static_cast<const A*>(args.weight) + parameters_of(args.sets, row);
  const T* x = static_cast<const T*>(args.x) + row * channels;
  const T* dy = static_cast<const T*>(args.dy) + row * channels;
  const A* mean = static_cast<const A*>(args.mean) + row;
  const A* rstd = static_cast<const A*>(args.rstd) + row;

  A base[kRows];
  for (int r = 0; r < kRows; ++r) base[r] = static_cast<A>(x[r * channels]);
  Vec<A> sum[kRows] = {}, dot[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    Vec<A> w = load_gains(weight + c, args.sets.scales, count);
    Vec<A> dw = load_n(dweight + c, count), db = load_n(dbias + c, count);
    for (int r = 0; r < kRows; ++r) {
      Vec<A> g = load_n(dy + r * channels + c, count);
      Vec<A> xhat = (load_n(x + r * channels + c, count) - base[r] - mean[r]) * rstd[r];
      db += g;
      dw += g * xhat;
      sum[r] += g * w;
      dot[r] += g * w * xhat;
    }
    store_n(dweight + c, dw, count);
    store_n(dbias + c, db, count);
  });
  if (!args.dx) return;

  T* dx = static_cast<T*>(args.dx) + row * channels;
  const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + row * channels : nullptr;
  for (int r = 0; r < kRows; ++r) {
    A mean_dot = reduce_add(dot[r]) / static_cast<A>(channels);
    A mean_sum = reduce_add(sum[r]) / static_cast<A>(channels);
    const A spread = 1 / (rstd[r] * static_cast<A>(channels));
    if (args.drow_std) mean_dot -= static_cast<const A*>(args.drow_std)[row + r] * spread;
    if (args.drow_mean) mean_sum -= static_cast<const A*>(args.drow_mean)[row + r] * spread;
    const std::int64_t first = r * channels;
    for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
      Vec<A> g = load_n(dy + first + c, count) * load_gains(weight + c, args.sets.scales, count);
      Vec<A> xhat = (load_n(x + first + c, count) - base[r] - mean[r]) * rstd[r];
      Vec<A> d = (g - mean_sum - xhat * mean_dot) * rstd[r];
      if (add) d += load_n(add + first + c, count);
      store_n(dx + first + c, d, count);
    });
    if (args.dbranch && !args.gate) scale_row<T>(args, row + r);
  }
  if (args.gate) gradients_of_gate<T, kRows>(args, row, dgate);
}

// With kOutputs 3, the third sum is dgate.
template <class T, int kOutputs>
void backward(CpuQueue& queue, const LayerNormBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const std::int64_t rows = args.sets.rows > 0 ? args.sets.rows : args.rows;
  if (rows <= 0) return;
  A* const totals[] = {static_cast<A*>(args.dweight), static_cast<A*>(args.dbias),
                       static_cast<A*>(args.dgate)};
  sum_set_rows<A, kOutputs>(
      queue, args.rows / rows, rows, channels,
      [&](std::int64_t begin, std::int64_t end, A* const(&sums)[kOutputs]) {
        for_each_group<kRowsTogether>(begin, end, [&](std::int64_t row, auto count) {
          backward_rows<T, count>(args, row, sums[0], sums[1], sums[kOutputs - 1]);
        });
      },
      [&](std::int64_t set, int k, std::int64_t c, auto count, Vec<A> sum) {
        if (!totals[k]) return;
        A* total = totals[k] + c + set * (k == 2 ? channels : args.sets.stride);
        if (k < 2) sum += load_n(total, count);
        store_n(total, sum, count);
      });
}

// Returns an array filled with `value`, in place of missing parameters.
template <class A>
const A* filled(Scratch::Scope& scope, std::int64_t channels, A value) {
  A* values = scope.take<A>(channels);
  for (std::int64_t c = 0; c < channels; ++c) values[c] = value;
  return values;
}

// Computes the residual sum, which the norm reads again from memory.
void make_sum(CpuQueue& queue, const LayerNormForward& args) {
  const std::int64_t count = args.rows * args.channels;
  if (args.row_scale) {
    DTN_ISA::run(queue, ScaleRows{args.dtype, count, args.rows_per_scale * args.channels,
                                  args.row_scale, args.branch, args.residual, args.sum});
  } else {
    DTN_ISA::run(queue, Add{args.dtype, count, args.residual, args.branch, args.sum});
  }
}

}  // namespace

void run(CpuQueue& queue, const LayerNormForward& given) {
  for_dtype("LayerNormForward", given.dtype, [&](auto tag) {
    using T = decltype(tag);
    Scratch::Scope scope(queue.scratch());
    LayerNormForward args = given;
    if (args.residual) {
      check_residual(args);
      if (!args.gate) make_sum(queue, args);
      args.x = args.sum;
    }
    if (!args.weight) args.weight = filled<AccumulatorOf<T>>(scope, args.channels, 1);
    if (!args.bias) args.bias = filled<AccumulatorOf<T>>(scope, args.channels, 0);
    parallel_ranges(args.rows, row_grain(args.channels), [&](std::int64_t begin, std::int64_t end) {
      for_each_in_sets(args.sets, begin, end, [&](std::int64_t row, auto count) {
        if (args.gate) add_gated_rows<T, count>(args, row);
        forward_rows<T, count>(args, row);
      });
    });
  });
}

void run(CpuQueue& queue, const LayerNormBackward& given) {
  for_dtype("LayerNormBackward", given.dtype, [&](auto tag) {
    using T = decltype(tag);
    Scratch::Scope scope(queue.scratch());
    LayerNormBackward args = given;
    if (!args.weight) args.weight = filled<AccumulatorOf<T>>(scope, args.channels, 1);
    check_gate(args);
    args.gate ? backward<T, 3>(queue, args) : backward<T, 2>(queue, args);
    if (!args.dbranch_sums) return;
    run(queue, SumRows{args.dtype, args.rows, args.channels, args.dbranch, args.dbranch_sums});
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::LayerNormForward)
DTN_DISPATCH(dtn::LayerNormBackward)
