// Full position matrices of DTN and their gradients; see dtn_dense_positions.h. Their T^2 values
// per head cost little compared with the products that use them, so a simple loop over rows of P is
// enough. Relative positions are products of the two small factors of P. This keeps precision where
// one large exponent would lose digits.
#include "kernels/dtn/dtn_dense_positions.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kRows = 16;  // rows per task

// p = softmax(scores)
template <class A>
void softmax_row(std::int64_t n, const A* scores, A* p) {
  std::int64_t whole = 0;
  Vec<A> largest = broadcast(scores[0]);
  for (; whole + kLanes<A> <= n; whole += kLanes<A>) largest = max(largest, load(scores + whole));
  A top = reduce_max(largest);
  for (std::int64_t j = whole; j < n; ++j) top = scores[j] > top ? scores[j] : top;
  Vec<A> sum{};
  for_each_vector<A>(n, [&](std::int64_t j, auto count) {
    const Vec<A> e = exp(load_n(scores + j, count) - top);
    store_n(p + j, e, count);
    sum += keep_n(e, count);
  });
  const A scale = 1 / reduce_add(sum);
  for_each_vector<A>(n, [&](std::int64_t j, auto count) {
    store_n(p + j, normal_or_zero<A>(load_n(p + j, count) * scale), count);
  });
}

// dscores += p (dp - sum p dp)
template <class A>
void softmax_row_backward(std::int64_t n, const A* p, const A* dp, A* dscores) {
  Vec<A> sum{};
  for_each_vector<A>(
      n, [&](std::int64_t j, auto count) { sum += load_n(p + j, count) * load_n(dp + j, count); });
  const A dot = reduce_add(sum);
  for_each_vector<A>(n, [&](std::int64_t j, auto count) {
    const Vec<A> d = load_n(p + j, count) * (load_n(dp + j, count) - dot);
    store_n(dscores + j, load_n(dscores + j, count) + d, count);
  });
}

// One factor of the P of a head as a plain matrix [n, n].
template <class A>
const A* plain_matrix(std::int64_t n, const PositionMatrices<A>& m, Scratch::Scope& scope) {
  A* p = scope.take<A>(n * n);
  for_each_pass_block(n, *m.block, [&](std::int64_t first, std::int64_t size) {
    const A* block = m.apply_transposed + first * n;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t k = 0; k < size; ++k) p[i * n + first + k] = block[i * size + k];
    }
  });
  return p;
}

// Builds the factors of P, a wave of heads at a time, and calls f(head, rows, columns).
template <class A, class F>
void for_each_head(CpuQueue& queue, const DtnDensePositions& args, bool gradients, F&& f) {
  const DtnSizes sizes(args.norm());
  Scratch::Scope scope(queue.scratch());
  HeadPositions<A> positions(sizes, args.variant, args.weight, gradients, scope);
  positions.for_each_wave([&](std::int64_t begin, std::int64_t heads) {
    parallel_for(heads, [&](std::int64_t i) {
      f(begin + i, positions.along_rows(begin + i), positions.down_columns(begin + i));
    });
  });
}

template <class A>
void relative(CpuQueue& queue, const DtnDensePositions& args) {
  const std::int64_t w = args.grid_w, h = args.grid_h;
  for_each_head<A>(queue, args, false, [&](std::int64_t head, const auto& rows, const auto& down) {
    Scratch::Scope scope(queue.scratch());
    const A *px = plain_matrix(w, rows, scope), *py = plain_matrix(h, down, scope);
    A* p = static_cast<A*>(args.p) + head * h * w * h * w;
    for (std::int64_t i = 0; i < h * w; ++i) {
      const A *of_x = px + i % w * w, *of_y = py + i / w * h;
      for (std::int64_t jy = 0; jy < h; ++jy, p += w) {
        for (std::int64_t jx = 0; jx < w; ++jx) p[jx] = normal_or_zero<A>(of_y[jy] * of_x[jx]);
      }
    }
  });
}

// The gradient of one factor of P is the gradient of P with the other factor applied. by_offset and
// by_square turn the gradient of a factor into that of the weights.
template <class A>
void relative_backward(CpuQueue& queue, const DtnDensePositionsBackward& args) {
  const std::int64_t w = args.grid_w, h = args.grid_h;
  for_each_head<A>(queue, args, true, [&](std::int64_t head, const auto& rows, const auto& down) {
    Scratch::Scope scope(queue.scratch());
    const A *px = plain_matrix(w, rows, scope), *py = plain_matrix(h, down, scope);
    const A* dp = static_cast<const A*>(args.dp) + head * h * w * h * w;
    A gradient[3] = {};
    for (std::int64_t i = 0; i < h * w; ++i) {
      const std::int64_t x = i % w * w, y = i / w * h;
      A of_row[3] = {};
      for (std::int64_t jy = 0; jy < h; ++jy, dp += w) {
        Vec<A> plain{}, offset{}, square{};
        for_each_vector<A>(w, [&](std::int64_t jx, auto count) {
          const Vec<A> d = load_n(dp + jx, count);
          plain += d * load_n(px + x + jx, count);
          offset += d * load_n(rows.by_offset + x + jx, count);
          square += d * load_n(rows.by_square + x + jx, count);
        });
        const A along = reduce_add(plain), p = py[y + jy];
        of_row[0] += p * reduce_add(offset);
        of_row[1] += down.by_offset[y + jy] * along;
        of_row[2] += p * reduce_add(square) + down.by_square[y + jy] * along;
      }
      for (int k = 0; k < 3; ++k) gradient[k] += of_row[k];
    }
    for (int k = 0; k < 3; ++k) static_cast<A*>(args.dweight)[3 * head + k] += gradient[k];
  });
}

template <class A>
void band_row(std::int64_t n, std::int64_t half, std::int64_t i, A* p) {
  const std::int64_t begin = i > half ? i - half : 0, end = n - i > half + 1 ? i + half + 1 : n;
  const A value = 1 / static_cast<A>(end - begin);
  for (std::int64_t j = 0; j < n; ++j) p[j] = j >= begin && j < end ? value : A(0);
}

}  // namespace

void run(CpuQueue& queue, const DtnDensePositions& args) {
  const std::int64_t n = args.grid_h * args.grid_w;
  for_accumulator_dtype("DtnDensePositions", args.dtype, [&](auto tag) {
    using A = decltype(tag);
    if (args.kind == DtnPositionKind::kRelative) return relative<A>(queue, args);
    parallel_ranges(args.heads * n, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        A* p = static_cast<A*>(args.p) + row * n;
        if (args.kind == DtnPositionKind::kBanded) {
          band_row(n, (args.band - 1) / 2, row % n, p);
        } else {
          softmax_row(n, static_cast<const A*>(args.weight) + row * n, p);
        }
      }
    });
  });
}

void run(CpuQueue& queue, const DtnDensePositionsBackward& args) {
  const std::int64_t n = args.grid_h * args.grid_w;
  for_accumulator_dtype("DtnDensePositionsBackward", args.dtype, [&](auto tag) {
    using A = decltype(tag);
    if (args.kind == DtnPositionKind::kRelative) return relative_backward<A>(queue, args);
    parallel_ranges(args.heads * n, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        softmax_row_backward(n, static_cast<const A*>(args.p) + row * n,
                             static_cast<const A*>(args.dp) + row * n,
                             static_cast<A*>(args.dweight) + row * n);
      }
    });
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnDensePositions)
DTN_DISPATCH(dtn::DtnDensePositionsBackward)
