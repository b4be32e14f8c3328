// Sparse attention as dense attention with a mask.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtn/ops/primitive.h"
#include "dtn/ops/sparse_attention.h"
#include "ops/attention/attention_parts.h"

namespace dtn::ops::reference {
using namespace primitive;
namespace {

// Pads x [B, T, C] with zeros to `rows` rows.
Variable filled_up(Context& ctx, const Variable& x, const Tensor& lengths, std::int64_t rows) {
  return pad(ctx, without_pads(ctx, x, lengths), 1, 0, rows - x.dim(1));
}

std::vector<char> seen_blocks(const BlockPattern& pattern) {
  const std::int64_t n = pattern.blocks, heads = pattern.options.heads;
  const std::int64_t width = pattern.options.random + 5;
  std::vector<char> sees(static_cast<std::size_t>(heads * n * n), 1);
  if (!pattern.seen.defined()) return sees;
  for (std::int64_t row = 0; row < heads * n; ++row) {
    if (row % n == 0 || row % n == n - 1) continue;
    std::fill_n(sees.begin() + row * n, n, 0);
    const auto* at = pattern.seen.data<std::int64_t>() + row * width;
    for (std::int64_t i = 0; i < width && at[i] >= 0; ++i) {
      sees[static_cast<std::size_t>(row * n + at[i])] = 1;
    }
  }
  return sees;
}

// Places of the positions after sorting by their hash in each round: [B, H, R, N].
struct HashPlaces {
  std::int64_t heads, rounds, positions;
  std::vector<std::int64_t> place;

  // q [B, H, N, D], rotations [D, R, half]. Positions after the end of a sample come last.
  HashPlaces(const Variable& q, const Tensor& rotations, const std::vector<std::int64_t>& lengths)
      : heads(q.dim(1)), rounds(rotations.dim(1)), positions(q.dim(2)) {
    Context plain;
    const Tensor values = cast(plain, Variable(q.value().to(kCpu)), DType::kFloat64).value();
    const Tensor directions = rotations.to(kCpu);
    place.resize(static_cast<std::size_t>(q.dim(0) * heads * rounds * positions));
    for (std::int64_t row = 0; row < q.dim(0) * heads * rounds; ++row) {
      const double* head = values.data<double>() + row / rounds * positions * q.dim(3);
      const std::int64_t length = lengths[static_cast<std::size_t>(row / rounds / heads)];
      sort(head, q.dim(3), directions, row % rounds, length, place.data() + row * positions);
    }
  }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t position) const {
    return place[static_cast<std::size_t>(((b * heads + h) * rounds + r) * positions + position)];
  }

 private:
  void sort(const double* q, std::int64_t dim, const Tensor& rotations, std::int64_t round,
            std::int64_t length, std::int64_t* to) const {
    const std::int64_t half = rotations.dim(2);
    std::vector<std::int64_t> bucket(static_cast<std::size_t>(positions), 2 * half);
    for (std::int64_t i = 0; i < length; ++i) {
      std::vector<double> z(static_cast<std::size_t>(2 * half));
      for (std::int64_t j = 0; j < half; ++j) {
        double sum = 0;
        for (std::int64_t d = 0; d < dim; ++d) {
          sum += q[i * dim + d] *
                 static_cast<double>(rotations.data<float>()[(d * rounds + round) * half + j]);
        }
        z[static_cast<std::size_t>(j)] = sum;
        z[static_cast<std::size_t>(half + j)] = -sum;
      }
      bucket[static_cast<std::size_t>(i)] = std::max_element(z.begin(), z.end()) - z.begin();
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(positions));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return bucket[static_cast<std::size_t>(a)] < bucket[static_cast<std::size_t>(b)];
    });
    for (std::int64_t i = 0; i < positions; ++i) to[order[static_cast<std::size_t>(i)]] = i;
  }
};

// Repeats x along a dimension, `times` times.
Variable repeated(Context& ctx, const Variable& x, int dim, std::int64_t times) {
  Variable y = x;
  for (std::int64_t i = 1; i < times; ++i) y = concat(ctx, y, x, dim);
  return y;
}

// q / |q|, or 0 where q is 0.
Variable normalized(Context& ctx, const Variable& q) {
  const Variable squares = sum(ctx, mul(ctx, q, q), 3);
  const Variable none = affine(ctx, greater(squares, full({1}, q.dtype(), q.device(), 0)), -1, 1);
  return div(ctx, q, sqrt(ctx, add(ctx, squares, none)));
}

// Converts [B, H, N, D] to [B, T, H D] and sets pads to 0. Without `move_heads`, only reshapes.
Variable tokens_of(Context& ctx, const Variable& out, const Variable& like, const Tensor& lengths,
                   bool move_heads) {
  const Variable rows = reshape(ctx, move_heads ? permute(ctx, out, {0, 2, 1, 3}) : out,
                                {out.dim(0), out.dim(2), out.dim(1) * out.dim(3)});
  return without_pads(ctx, cast(ctx, narrow(ctx, rows, 1, 0, like.dim(1)), like.dtype()), lengths);
}

}  // namespace

Variable block_attention(Context& ctx, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths) {
  const BlockPattern::Options& o = pattern.options;
  const std::int64_t n = pattern.blocks, rows = n * o.block;
  const Variable x = filled_up(ctx, qkv, lengths, rows);
  const Variable q = heads_of(ctx, x, o.heads, 3, 0), k = heads_of(ctx, x, o.heads, 3, 1);
  const std::vector<char> sees = seen_blocks(pattern);
  const auto valid = host_lengths(lengths, qkv.dim(0), o.tokens);
  const Variable penalty = constant_from(
      {qkv.dim(0), o.heads, rows, rows}, q.dtype(), q.device(),
      [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        const bool is_key = j < valid[static_cast<std::size_t>(b)] ||
                            (j >= o.tokens && o.variant == SparseVariant::kLra);
        const auto at = static_cast<std::size_t>((h * n + i / o.block) * n + j / o.block);
        return is_key && sees[at] ? 0.0f : kUnseen;
      });
  const Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})),
                                 1 / std::sqrt(static_cast<double>(q.dim(3))));
  const Variable out =
      matmul(ctx, softmax(ctx, add(ctx, scores, penalty)), heads_of(ctx, x, o.heads, 3, 2));
  return tokens_of(ctx, out, qkv, lengths, true);
}

Variable hashed_attention(Context& ctx, const Variable& qk, const Variable& v,
                          const Tensor& rotations, const HashedAttention& how,
                          const Tensor& all_lengths) {
  const bool lra = how.variant == SparseVariant::kLra;
  const std::int64_t rounds = rotations.dim(1), buckets = 2 * rotations.dim(2);
  const std::int64_t rows = (qk.dim(1) + (lra ? buckets : buckets - 1)) / buckets * buckets;
  const std::int64_t chunk = rows / buckets, chunks = buckets * rounds;
  const Tensor lengths = lra ? Tensor() : all_lengths;
  const Variable q = heads_of(ctx, filled_up(ctx, qk, lengths, rows), how.heads, 1, 0);
  const Variable values = heads_of(ctx, filled_up(ctx, v, lengths, rows), how.heads, 1, 0);
  const auto valid = host_lengths(lengths, qk.dim(0), lra ? rows : qk.dim(1));
  const HashPlaces places(q, rotations, valid);

  const double scale = lra ? std::sqrt(static_cast<double>(q.dim(3))) : 1;
  const Variable k = lra ? q : normalized(ctx, q);
  Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})), scale);
  if (!lra) {
    const Variable self = constant_from(
        {1, 1, rows, rows}, q.dtype(), q.device(),
        [](auto, auto, std::int64_t i, std::int64_t j) { return i == j ? 1.0 : 0.0; });
    scores = where(ctx, self, full({1}, q.dtype(), q.device(), -1e5), scores);
  }
  // One column for each combination of query round, key round and key.
  const Variable penalty =
      constant_from({qk.dim(0), how.heads, rows, rounds * rounds * rows}, q.dtype(), q.device(),
                    [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t column) {
                      const std::int64_t r = column / rows / rounds, s = column / rows % rounds;
                      const std::int64_t j = column % rows;
                      const std::int64_t query = r * buckets + places.at(b, h, r, i) / chunk;
                      const std::int64_t key = s * buckets + places.at(b, h, s, j) / chunk;
                      const bool near = key == query || key == (query + chunks - 1) % chunks;
                      const bool is_key = j < valid[static_cast<std::size_t>(b)];
                      return near && is_key ? 0.0f : kUnseen;
                    });
  scores = add(ctx, repeated(ctx, scores, 3, rounds * rounds), penalty);
  const Variable out = matmul(ctx, softmax(ctx, scores), repeated(ctx, values, 2, rounds * rounds));
  return tokens_of(ctx, out, qk, lengths, !lra);
}

}  // namespace dtn::ops::reference
