// PowerNorm; see power_norm.h for the formulas.
//
// The kernels go through a few rows at a time, a tile, twice: first for the sums over the groups,
// then by columns, when the tile is in the first-level cache. In memory, the groups of a tile's
// rows are consecutive segments of D values. One reduction folds as many segments as a vector has
// lanes. Each pass recomputes the factors of the groups, which costs less than storing them.
#include "kernels/norm/power_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/simd.h"

namespace dtn::DTN_ISA {
namespace {

constexpr int kTile = 8;  // rows

std::int64_t width_of(const PowerNormShape& s) { return s.channels / s.groups; }
// Number of values to allocate for one value per segment of a tile, in whole vectors of any type.
std::int64_t padded_segments(const PowerNormShape& s) { return (kTile * s.groups + 15) / 16 * 16; }

// Calls f(group, c, count) for vectors of columns that stay within one group.
template <class A, class F>
void for_each_column(const PowerNormShape& s, F&& f) {
  const std::int64_t width = width_of(s);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for_each_vector<A>(width, [&](std::int64_t j, auto count) { f(g, g * width + j, count); });
  }
}

// Computes kSums sums per segment. add(i, sums) adds segment i into kSums vectors.
// store_totals(i, totals) gets the sums of their lanes for segments i, i + 1, ..., one per lane.
template <class A, int kSums, class Add, class Store>
void sum_segments(std::int64_t segments, Add&& add, Store&& store_totals) {
  constexpr int lanes = kLanes<A>;
  A folded[kSums][lanes * lanes];
  for (std::int64_t first = 0; first < segments; first += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      Vec<A> sums[kSums] = {};
      if (first + lane < segments) add(first + lane, sums);
      for (int k = 0; k < kSums; ++k) store(folded[k] + lane * lanes, sums[k]);
    }
    Vec<A> totals[kSums];
    for (int k = 0; k < kSums; ++k) totals[k] = reduce_add_each<A>(folded[k]);
    store_totals(first, totals);
  }
}

// Sets factor[i] to s of the i-th segment from x on.
template <class T, class A = AccumulatorOf<T>>
void group_factors(const PowerNormShape& s, const T* x, std::int64_t segments, A* factor) {
  const std::int64_t width = width_of(s);
  const A share = 1 / static_cast<A>(width), eps = static_cast<A>(s.eps);
  sum_segments<A, 1>(
      segments,
      [&](std::int64_t i, Vec<A>* squares) {
        for_each_vector<A>(width, [&](std::int64_t j, auto count) {
          const Vec<A> v = load_n(x + i * width + j, count);
          squares[0] += v * v;
        });
      },
      [&](std::int64_t i, const Vec<A>* squares) {
        store(factor + i, rsqrt(Vec<A>(squares[0] * share + eps)));
      });
}

// --- forward ------------------------------------------------------------------------------------

template <class T>
void sum_squares(CpuQueue& queue, const PowerNormSquares& args) {
  using A = AccumulatorOf<T>;
  const PowerNormShape& s = args.shape;
  auto visit = [&](std::int64_t begin, std::int64_t end, A** sums) {
    Scratch::Scope scope(queue.scratch());
    A* factor = scope.take<A>(padded_segments(s));
    for_each_group<kTile>(begin, end, [&](std::int64_t row, auto rows) {
      const T* x = static_cast<const T*>(args.x) + row * s.channels;
      group_factors(s, x, rows * s.groups, factor);
      for_each_column<A>(s, [&](std::int64_t g, std::int64_t c, auto count) {
        Vec<A> sum = load_n(sums[0] + c, count);
        for (int r = 0; r < rows; ++r) {
          const Vec<A> z = load_n(x + r * s.channels + c, count) * factor[r * s.groups + g];
          sum += z * z;
        }
        store_n(sums[0] + c, sum, count);
      });
    });
  };
  sum_rows<A, 1>(queue, s.rows, s.channels, kTile, visit,
                 [&](int, std::int64_t c, auto count, Vec<A> sum) {
                   store_n(static_cast<A*>(args.squares) + c, sum, count);
                 });
}

// Writes rpsi and, in training, power and the next running values.
template <class A>
void settle_psi(const PowerNormForward& args) {
  const std::int64_t channels = args.shape.channels;
  const A eps = static_cast<A>(args.shape.eps), alpha = static_cast<A>(args.alpha);
  const A* running = static_cast<const A*>(args.running_phi);
  A* rpsi = static_cast<A*>(args.rpsi);
  if (!args.squares) {
    for (std::int64_t c = 0; c < channels; ++c) rpsi[c] = rsqrt(broadcast(running[c] + eps))[0];
    return;
  }
  const A iteration = *static_cast<const A*>(args.iterations) + 1;
  const A warmup = static_cast<A>(args.warmup);
  A* power = static_cast<A*>(args.power);
  A* next = static_cast<A*>(args.next_running_phi);
  for (std::int64_t c = 0; c < channels; ++c) {
    const A phi = static_cast<const A*>(args.squares)[c] / static_cast<A>(args.count);
    rpsi[c] = rsqrt(broadcast((iteration <= warmup ? phi : running[c]) + eps))[0];
    power[c] = phi * rpsi[c] * rpsi[c];
    if (!next) continue;
    A moved = next[c];
    if (iteration < warmup) moved += (phi - moved) / iteration;
    next[c] = alpha * moved + (1 - alpha) * phi;
  }
  if (next) *static_cast<A*>(args.next_iterations) = iteration;
}

template <class T>
void forward(CpuQueue& queue, const PowerNormForward& args) {
  using A = AccumulatorOf<T>;
  const PowerNormShape& s = args.shape;
  settle_psi<A>(args);
  const A* weight = static_cast<const A*>(args.weight);
  const A* bias = static_cast<const A*>(args.bias);
  const A* rpsi = static_cast<const A*>(args.rpsi);
  std::int64_t grain = (row_grain(s.channels) + kTile - 1) / kTile * kTile;
  parallel_ranges(s.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    Scratch::Scope scope(queue.scratch());
    A* factor = scope.take<A>(padded_segments(s));
    for_each_group<kTile>(begin, end, [&](std::int64_t row, auto rows) {
      const T* x = static_cast<const T*>(args.x) + row * s.channels;
      T* y = static_cast<T*>(args.y) + row * s.channels;
      group_factors(s, x, rows * s.groups, factor);
      for_each_column<A>(s, [&](std::int64_t g, std::int64_t c, auto count) {
        const Vec<A> scale = load_n(weight + c, count) * load_n(rpsi + c, count);
        const Vec<A> shift = load_n(bias + c, count);
        for (int r = 0; r < rows; ++r) {
          const Vec<A> z0 = load_n(x + r * s.channels + c, count) * factor[r * s.groups + g];
          store_n(y + r * s.channels + c, Vec<A>(z0 * scale + shift), count);
        }
      });
    });
  });
}

// --- backward -----------------------------------------------------------------------------------

// Coefficients of d = dz0 = dy direct - z0 damped, for each channel.
template <class A>
struct Slopes {
  A* direct;  // weight / psi
  A* damped;  // nu / psi^2

  Slopes(const PowerNormBackward& args, Scratch::Scope& scope)
      : direct(scope.take<A>(args.shape.channels)), damped(scope.take<A>(args.shape.channels)) {
    const A rest = static_cast<A>(1 - args.alpha);
    const A* ema = static_cast<const A*>(args.ema_gz);
    for (std::int64_t c = 0; c < args.shape.channels; ++c) {
      const A rpsi = static_cast<const A*>(args.rpsi)[c];
      direct[c] = static_cast<const A*>(args.weight)[c] * rpsi;
      damped[c] = ema ? rest * ema[c] * rpsi * rpsi : 0;
    }
  }
};

// Computes s and the mean of d z0 of each segment, from the sums of x^2, dy direct x and
// damped x^2.
template <class T, class A = AccumulatorOf<T>>
void segment_slopes(const PowerNormShape& s, const Slopes<A>& slopes, const T* x, const T* dy,
                    std::int64_t segments, A* factor, A* mean_dot) {
  const std::int64_t width = width_of(s);
  const A share = 1 / static_cast<A>(width), eps = static_cast<A>(s.eps);
  std::int64_t channel = 0;  // of the segment's first value
  sum_segments<A, 3>(
      segments,
      [&](std::int64_t i, Vec<A>* sums) {
        const A* direct = slopes.direct + channel;
        const A* damped = slopes.damped + channel;
        for_each_vector<A>(width, [&](std::int64_t j, auto count) {
          const Vec<A> v = load_n(x + i * width + j, count);
          const Vec<A> squares = v * v;
          sums[0] += squares;
          sums[1] += load_n(dy + i * width + j, count) * load_n(direct + j, count) * v;
          sums[2] += load_n(damped + j, count) * squares;
        });
        channel += width;
        if (channel == s.channels) channel = 0;
      },
      [&](std::int64_t i, const Vec<A>* sums) {
        const Vec<A> f = rsqrt(Vec<A>(sums[0] * share + eps));
        store(factor + i, f);
        store(mean_dot + i, Vec<A>((sums[1] - sums[2] * f) * f * share));
      });
}

// Processes a tile of rows. Adds dy z0 and dy to the sums of this chunk.
template <class T, class A, class Rows>
void backward_tile(const PowerNormBackward& args, const Slopes<A>& slopes, std::int64_t row,
                   Rows rows, A* factor, A* mean_dot, A** sums) {
  const PowerNormShape& s = args.shape;
  const std::int64_t first = row * s.channels;
  const T* x = static_cast<const T*>(args.x) + first;
  const T* dy = static_cast<const T*>(args.dy) + first;
  const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + first : nullptr;
  T* dx = args.dx ? static_cast<T*>(args.dx) + first : nullptr;
  segment_slopes(s, slopes, x, dy, rows * s.groups, factor, mean_dot);
  for_each_column<A>(s, [&](std::int64_t g, std::int64_t c, auto count) {
    const Vec<A> direct = load_n(slopes.direct + c, count);
    const Vec<A> damped = load_n(slopes.damped + c, count);
    Vec<A> dot = load_n(sums[0] + c, count), sum = load_n(sums[1] + c, count);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t at = r * s.channels + c;
      const A f = factor[r * s.groups + g], m = mean_dot[r * s.groups + g];
      const Vec<A> grad = load_n(dy + at, count), z0 = load_n(x + at, count) * f;
      dot += grad * z0;
      sum += grad;
      if (!dx) continue;
      Vec<A> d = (grad * direct - z0 * (damped + m)) * f;
      if (add) d += load_n(add + at, count);
      store_n(dx + at, d, count);
    }
    store_n(sums[0] + c, dot, count);
    store_n(sums[1] + c, sum, count);
  });
}

template <class T>
void backward(CpuQueue& queue, const PowerNormBackward& args) {
  using A = AccumulatorOf<T>;
  const PowerNormShape& s = args.shape;
  Scratch::Scope outer(queue.scratch());
  const Slopes<A> slopes(args, outer);
  auto visit = [&](std::int64_t begin, std::int64_t end, A** sums) {
    Scratch::Scope scope(queue.scratch());
    A* factor = scope.take<A>(padded_segments(s));
    A* mean_dot = scope.take<A>(padded_segments(s));
    for_each_group<kTile>(begin, end, [&](std::int64_t row, auto rows) {
      backward_tile<T>(args, slopes, row, rows, factor, mean_dot, sums);
    });
  };
  sum_rows<A, 2>(queue, s.rows, s.channels, kTile, visit,
                 [&](int k, std::int64_t c, auto count, Vec<A> sum) {
                   if (k == 0) sum *= load_n(static_cast<const A*>(args.rpsi) + c, count);
                   if (k == 0 && args.dot) store_n(static_cast<A*>(args.dot) + c, sum, count);
                   A* total = static_cast<A*>(k == 0 ? args.dweight : args.dbias);
                   if (total) store_n(total + c, load_n(total + c, count) + sum, count);
                 });
}

template <class A>
void feed_back(const PowerNormFeedback& args) {
  const A rest = static_cast<A>(1 - args.alpha), count = static_cast<A>(args.count);
  A* ema = static_cast<A*>(args.next_ema_gz);
  for (std::int64_t c = 0; c < args.channels; ++c) {
    const A mean =
        static_cast<const A*>(args.weight)[c] * static_cast<const A*>(args.dot)[c] / count;
    ema[c] += mean - rest * ema[c] * static_cast<const A*>(args.power)[c];
  }
}

}  // namespace

void run(CpuQueue& queue, const PowerNormSquares& args) {
  if (args.shape.rows == 0 || args.shape.channels == 0) return;
  for_dtype("PowerNormSquares", args.shape.dtype,
            [&](auto tag) { sum_squares<decltype(tag)>(queue, args); });
}

void run(CpuQueue& queue, const PowerNormForward& args) {
  if (args.shape.channels == 0) return;
  for_dtype("PowerNormForward", args.shape.dtype,
            [&](auto tag) { forward<decltype(tag)>(queue, args); });
}

void run(CpuQueue& queue, const PowerNormBackward& args) {
  if (args.shape.rows == 0 || args.shape.channels == 0) return;
  for_dtype("PowerNormBackward", args.shape.dtype,
            [&](auto tag) { backward<decltype(tag)>(queue, args); });
}

void run(CpuQueue&, const PowerNormFeedback& args) {
  if (args.count == 0) return;
  for_dtype("PowerNormFeedback", args.dtype,
            [&](auto tag) { feed_back<AccumulatorOf<decltype(tag)>>(args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::PowerNormSquares)
DTN_DISPATCH(dtn::PowerNormForward)
DTN_DISPATCH(dtn::PowerNormBackward)
DTN_DISPATCH(dtn::PowerNormFeedback)
