// Layer normalization by rows; see layer_norm.h for the formulas. A row is read three times, twice
// from the first-level cache.
#include "kernels/norm/layer_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const Add&);
void run(CpuQueue&, const ScaleRows&);

namespace {

// Returns the offset of the parameters of a row.
std::int64_t parameters_of(const ParameterSets& sets, std::int64_t row) {
  return sets.rows > 0 ? row / sets.rows * sets.stride : 0;
}

constexpr int kRowsTogether = 4;

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
    const Vec<A> w = load_n(weight + c, count), b = load_n(bias + c, count);
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

// Processes kRows rows at a time, so that the running parameter gradients are loaded and stored
// once for all of them. dweight and dbias are the partial sums of this chunk of rows.
template <class T, int kRows>
void backward_rows(const LayerNormBackward& args, std::int64_t row, AccumulatorOf<T>* dweight,
                   AccumulatorOf<T>* dbias) {
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
    Vec<A> w = load_n(weight + c, count);
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
      Vec<A> g = load_n(dy + first + c, count) * load_n(weight + c, count);
      Vec<A> xhat = (load_n(x + first + c, count) - base[r] - mean[r]) * rstd[r];
      Vec<A> d = (g - mean_sum - xhat * mean_dot) * rstd[r];
      if (add) d += load_n(add + first + c, count);
      store_n(dx + first + c, d, count);
    });
    if (args.dbranch) scale_row<T>(args, row + r);
  }
}

template <class A>
void add_partials(const A* partials, std::int64_t chunks, std::int64_t stride,
                  std::int64_t channels, A* total) {
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    Vec<A> sum{};
    for (std::int64_t k = 0; k < chunks; ++k) sum += load_n(partials + k * stride + c, count);
    store_n(total + c, load_n(total + c, count) + sum, count);
  });
}

template <class T>
void backward(CpuQueue& queue, const LayerNormBackward& args) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const std::int64_t set_rows = args.sets.rows > 0 ? args.sets.rows : args.rows;
  if (set_rows <= 0) return;
  const std::int64_t sets = args.rows / set_rows;
  const std::int64_t wanted = (kRowChunks + sets - 1) / sets;  // chunks per set
  std::int64_t grain = (set_rows + wanted - 1) / wanted;
  if (grain < kRowsTogether) grain = kRowsTogether;
  const std::int64_t chunks = (set_rows + grain - 1) / grain;
  const std::int64_t stride = 2 * ((channels + 15) / 16 * 16);
  Scratch::Scope scope(queue.scratch());
  A* partials = scope.take<A>(sets * chunks * stride);
  parallel_for(sets * chunks, [&](std::int64_t chunk) {
    const std::int64_t first = chunk / chunks * set_rows, begin = chunk % chunks * grain;
    const std::int64_t end = begin + grain < set_rows ? begin + grain : set_rows;
    A* dweight = partials + chunk * stride;
    A* dbias = dweight + stride / 2;
    for (std::int64_t c = 0; c < stride; ++c) dweight[c] = 0;
    for_each_in_sets(args.sets, first + begin, first + end, [&](std::int64_t row, auto count) {
      backward_rows<T, count>(args, row, dweight, dbias);
    });
  });
  parallel_for(sets, [&](std::int64_t set) {
    const A* of_set = partials + set * chunks * stride;
    const std::int64_t to = set * args.sets.stride;
    if (args.dweight) {
      add_partials(of_set, chunks, stride, channels, static_cast<A*>(args.dweight) + to);
    }
    if (args.dbias) {
      add_partials(of_set + stride / 2, chunks, stride, channels, static_cast<A*>(args.dbias) + to);
    }
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
      make_sum(queue, args);
      args.x = args.sum;
    }
    if (!args.weight) args.weight = filled<AccumulatorOf<T>>(scope, args.channels, 1);
    if (!args.bias) args.bias = filled<AccumulatorOf<T>>(scope, args.channels, 0);
    parallel_ranges(args.rows, row_grain(args.channels), [&](std::int64_t begin, std::int64_t end) {
      for_each_in_sets(args.sets, begin, end,
                       [&](std::int64_t row, auto count) { forward_rows<T, count>(args, row); });
    });
  });
}

void run(CpuQueue& queue, const LayerNormBackward& given) {
  for_dtype("LayerNormBackward", given.dtype, [&](auto tag) {
    using T = decltype(tag);
    Scratch::Scope scope(queue.scratch());
    LayerNormBackward args = given;
    if (!args.weight) args.weight = filled<AccumulatorOf<T>>(scope, args.channels, 1);
    backward<T>(queue, args);
    if (!args.dbranch_sums) return;
    run(queue, SumRows{args.dtype, args.rows, args.channels, args.dbranch, args.dbranch_sums});
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::LayerNormForward)
DTN_DISPATCH(dtn::LayerNormBackward)
