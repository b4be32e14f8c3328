// RoIAlign in two passes; see roi_align.h for the formulas. The forward pass takes a block of
// channels at a time. It first forms t[i, q] = sum_j Ax[q, j] F[i, j] for the rows that the RoI
// reads, then y[p, q] = sum_i Ay[p, i] t[i, q]. So each cell is read about once. The backward pass
// goes over the rows of the levels. A row takes the RoIs that read it, in order:
//    u[q] = sum_p Ay[p, i] dy[p, q]
//    dF[i, j] += sum_q Ax[q, j] u[q]
#include "kernels/detect/roi_align.h"

#include <algorithm>

#include "dtn/core/parallel.h"
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/detect/roi_align_taps.h"

namespace dtn::DTN_ISA {
namespace {

constexpr int kBlockVectors = 4;  // vectors of channels that are summed at once

// Taps of one axis by bin: bin p reads count cells from `first` on.
template <class A>
struct BinTaps {
  int first, count;
  const A* weights;
};

// Writes the taps of all bins, and their weights one after another.
template <class A>
void fill_taps(const RoiAxis& axis, int bins, BinTaps<A>* taps, A* weights) {
  for (int p = 0; p < bins; ++p) {
    const RoiRange range = roi_range(axis, p);
    roi_weights(axis, p, range, weights);
    taps[p] = {range.first, range.count, weights};
    weights += range.count;
  }
}

// Cells that the bins together read.
template <class A>
RoiRange cells_of(const BinTaps<A>* taps, int bins) {
  int first = 0, end = 0;
  for (int p = 0; p < bins; ++p) {
    if (taps[p].count == 0) continue;
    if (end == 0) first = taps[p].first;
    end = taps[p].first + taps[p].count;
  }
  return {first, end - first};
}

// The taps of a RoI that has a level.
template <class A>
struct RoiTaps {
  BinTaps<A>*rows, *columns;  // [S] each

  RoiTaps(Scratch::Scope& scope, const RoiAlignShape& shape, std::int64_t r) {
    const std::int64_t level = shape.level[r];
    const std::int64_t h = shape.grid_h[level], w = shape.grid_w[level];
    const float* box = shape.boxes + 4 * r;
    const double scale = shape.scale[level];
    const int bins = static_cast<int>(shape.size);
    rows = scope.take<BinTaps<A>>(bins);
    columns = scope.take<BinTaps<A>>(bins);
    fill_taps(roi_axis(box[1], box[3], scale, bins, h), bins, rows,
              scope.take<A>(max_roi_taps(bins, h)));
    fill_taps(roi_axis(box[0], box[2], scale, bins, w), bins, columns,
              scope.take<A>(max_roi_taps(bins, w)));
  }
};

// Calls f(c, vectors, count) for blocks of channels: `vectors` whole vectors from channel c on, or
// one vector of which the first `count` lanes are channels.
template <class A, class F>
void for_each_block(std::int64_t channels, F&& f) {
  constexpr std::int64_t lanes = kLanes<A>, block = kBlockVectors * lanes;
  using Whole = std::integral_constant<int, kLanes<A>>;
  std::int64_t c = 0;
  for (; c + block <= channels; c += block)
    f(c, std::integral_constant<int, kBlockVectors>{}, Whole{});
  for (; c + lanes <= channels; c += lanes) f(c, std::integral_constant<int, 1>{}, Whole{});
  if (c < channels) f(c, std::integral_constant<int, 1>{}, static_cast<int>(channels - c));
}

// y = sum_k w[k] x[k], over `count` rows of x that are `stride` apart.
template <class A, class X, class Y, class Vectors, class Count>
inline void weighted_sum(const A* w, int count, const X* x, std::int64_t stride, Y* y, Vectors,
                         Count lanes) {
  constexpr int vectors = Vectors::value;
  Vec<A> sum[vectors] = {};
  for (int k = 0; k < count; ++k, x += stride) {
    for (int v = 0; v < vectors; ++v) sum[v] += w[k] * load_n(x + v * kLanes<A>, lanes);
  }
  for (int v = 0; v < vectors; ++v) store_n(y + v * kLanes<A>, sum[v], lanes);
}

// Fills the S S C outputs of a RoI with one value.
template <class T>
void fill_outputs(T* y, std::int64_t count, AccumulatorOf<T> value) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(value);
}

template <class T>
void align_roi(CpuQueue& queue, const RoiAlignForward& args, std::int64_t r) {
  using A = AccumulatorOf<T>;
  const std::int64_t bins = args.size, channels = args.channels;
  T* y = static_cast<T*>(args.y) + r * bins * bins * channels;
  if (!args.is_valid(r)) {
    return fill_outputs(y, bins * bins * channels, static_cast<A>(__builtin_nan("")));
  }
  const std::int64_t level = args.level[r], w = args.grid_w[level];
  Scratch::Scope scope(queue.scratch());
  const RoiTaps<A> taps(scope, args, r);
  const RoiRange rows = cells_of(taps.rows, static_cast<int>(bins));
  constexpr std::int64_t block = kBlockVectors * kLanes<A>;
  A* t = scope.take<A>(rows.count * bins * block);
  const T* x = static_cast<const T*>(args.features[level]) +
               (args.image[r] * args.grid_h[level] + rows.first) * w * channels;
  for_each_block<A>(channels, [&](std::int64_t c, auto vectors, auto lanes) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      for (std::int64_t q = 0; q < bins; ++q) {
        const BinTaps<A>& columns = taps.columns[q];
        weighted_sum(columns.weights, columns.count, x + (i * w + columns.first) * channels + c,
                     channels, t + (i * bins + q) * block, vectors, lanes);
      }
    }
    for (std::int64_t p = 0; p < bins; ++p) {
      const BinTaps<A>& of = taps.rows[p];
      const A* first = t + (of.first - rows.first) * bins * block;
      for (std::int64_t q = 0; q < bins; ++q) {
        weighted_sum(of.weights, of.count, first + q * block, bins * block,
                     y + (p * bins + q) * channels + c, vectors, lanes);
      }
    }
  });
}

// --- backward -----------------------------------------------------------------------------------

// The taps of one axis by cell: cell `first` + i has weights [S] at weights + i S, which are not 0
// for the bins of bins[i] only. bins[i].first is a bin here.
template <class A>
struct CellTaps {
  RoiRange cells;
  const RoiRange* bins;
  const A* weights;
};

template <class A>
CellTaps<A> transposed(Scratch::Scope& scope, const BinTaps<A>* taps, int bins) {
  const RoiRange cells = cells_of(taps, bins);
  A* weights = scope.take<A>(std::int64_t{cells.count} * bins);
  RoiRange* ranges = scope.take<RoiRange>(cells.count);
  std::fill_n(weights, std::int64_t{cells.count} * bins, A(0));
  std::fill_n(ranges, cells.count, RoiRange{0, 0});
  for (int p = 0; p < bins; ++p) {
    for (int k = 0; k < taps[p].count; ++k) {
      const std::int64_t i = taps[p].first - cells.first + k;
      if (ranges[i].count == 0) ranges[i].first = p;
      ranges[i].count = p + 1 - ranges[i].first;
      weights[i * bins + p] = taps[p].weights[k];
    }
  }
  return {cells, ranges, weights};
}

// The taps of all RoIs. `next` links the RoIs of one level and image, in order.
template <class A>
struct TransposedRoi {
  CellTaps<A> rows, columns;
  std::int64_t next;
};

constexpr std::int64_t kNone = -1;

// Adds what the RoI gives to row `i` of its level. `row` points to [W, C] sums.
template <class A, class T>
void add_roi_row(Scratch::Scope& scope, const TransposedRoi<A>& roi, const T* dy, std::int64_t bins,
                 std::int64_t channels, std::int64_t i, A* row) {
  const std::int64_t local = i - roi.rows.cells.first;
  const RoiRange p = roi.rows.bins[local];
  constexpr std::int64_t block = kBlockVectors * kLanes<A>;
  A* u = scope.take<A>(bins * block);
  const T* from = dy + p.first * bins * channels;
  for_each_block<A>(channels, [&](std::int64_t c, auto vectors, auto lanes) {
    constexpr int n = decltype(vectors)::value;
    for (std::int64_t q = 0; q < bins; ++q) {
      weighted_sum(roi.rows.weights + local * bins + p.first, p.count, from + q * channels + c,
                   bins * channels, u + q * block, vectors, lanes);
    }
    for (int j = 0; j < roi.columns.cells.count; ++j) {
      const RoiRange q = roi.columns.bins[j];
      const A* weights = roi.columns.weights + j * bins + q.first;
      A* to = row + (roi.columns.cells.first + j) * channels + c;
      Vec<A> sum[n];
      for (int v = 0; v < n; ++v) sum[v] = load_n(to + v * kLanes<A>, lanes);
      for (int k = 0; k < q.count; ++k) {
        const A* of = u + (q.first + k) * block;
        for (int v = 0; v < n; ++v) sum[v] += weights[k] * load(of + v * kLanes<A>);
      }
      for (int v = 0; v < n; ++v) store_n(to + v * kLanes<A>, sum[v], lanes);
    }
  });
}

// Sums the gradient of row `i` of an image and a level. `first` is its first RoI.
template <class T>
void sum_row(CpuQueue& queue, const RoiAlignBackward& args,
             const TransposedRoi<AccumulatorOf<T>>* rois, std::int64_t first, std::int64_t i,
             std::int64_t count, T* to) {
  using A = AccumulatorOf<T>;
  Scratch::Scope scope(queue.scratch());
  A* row;
  if constexpr (std::is_same_v<A, T>) {
    row = to;
  } else {
    row = scope.take<A>(count);
  }
  std::fill_n(row, count, A(0));
  const std::int64_t outputs = args.size * args.size * args.channels;
  for (std::int64_t r = first; r != kNone; r = rois[r].next) {
    const RoiRange rows = rois[r].rows.cells;
    if (i < rows.first || i >= rows.first + rows.count) continue;
    Scratch::Scope inner(queue.scratch());
    add_roi_row(inner, rois[r], static_cast<const T*>(args.dy) + r * outputs, args.size,
                args.channels, i, row);
  }
  if constexpr (!std::is_same_v<A, T>) {
    for_each_vector<A>(
        count, [&](std::int64_t k, auto lanes) { store_n(to + k, load_n(row + k, lanes), lanes); });
  }
}

// Links the RoIs of each level and image; returns the first of each, [levels, B].
template <class A>
const std::int64_t* link_rois(Scratch::Scope& scope, const RoiAlignBackward& args,
                              TransposedRoi<A>* rois) {
  std::int64_t* first = scope.take<std::int64_t>(args.levels * args.batch);
  std::fill_n(first, args.levels * args.batch, kNone);
  for (std::int64_t r = args.rois - 1; r >= 0; --r) {
    if (!args.is_valid(r)) continue;
    std::int64_t& head = first[args.level[r] * args.batch + args.image[r]];
    rois[r].next = head;
    head = r;
  }
  return first;
}

template <class T>
void align_backward(CpuQueue& queue, const RoiAlignBackward& args) {
  using A = AccumulatorOf<T>;
  Scratch::Scope scope(queue.scratch());
  auto* rois = scope.take<TransposedRoi<A>>(args.rois);
  for (std::int64_t r = 0; r < args.rois; ++r) {
    if (!args.is_valid(r)) continue;
    const RoiTaps<A> taps(scope, args, r);
    rois[r].rows = transposed(scope, taps.rows, static_cast<int>(args.size));
    rois[r].columns = transposed(scope, taps.columns, static_cast<int>(args.size));
  }
  const std::int64_t* first = link_rois(scope, args, rois);
  for (int level = 0; level < args.levels; ++level) {
    if (!args.dfeatures[level]) continue;
    const std::int64_t h = args.grid_h[level], count = args.grid_w[level] * args.channels;
    parallel_for(args.batch * h, [&](std::int64_t row) {
      sum_row(queue, args, rois, first[level * args.batch + row / h], row % h, count,
              static_cast<T*>(args.dfeatures[level]) + row * count);
    });
  }
}

}  // namespace

void run(CpuQueue& queue, const RoiAlignForward& args) {
  for_dtype("RoiAlignForward", args.dtype, [&](auto zero) {
    parallel_for(args.rois, [&](std::int64_t r) { align_roi<decltype(zero)>(queue, args, r); });
  });
}

void run(CpuQueue& queue, const RoiAlignBackward& args) {
  for_dtype("RoiAlignBackward", args.dtype,
            [&](auto zero) { align_backward<decltype(zero)>(queue, args); });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(RoiAlignForward)
DTN_DISPATCH(RoiAlignBackward)
