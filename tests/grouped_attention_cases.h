// Attention as in the hierarchical models, with the column layouts of their projections. Used by
// tests that compare the operation with its reference.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "dtn/ops/grouped_attention.h"

namespace dtn::test {

struct GroupedCase {
  std::string name;
  Shape queries, keys;  // rank 0: keys are in the array of the queries
  Shape bias;           // rank 0: no bias
  ops::GroupedAttention how;

  bool one() const { return keys.rank() == 0; }
  // Calls op(ctx, queries, keys, bias, how) with the inputs that exist.
  template <class Op>
  Variable run(Op&& op, Context& ctx, const std::vector<Variable>& inputs) const {
    const Variable& k = one() ? inputs[0] : inputs[1];
    return op(ctx, inputs[0], k, bias.rank() ? inputs.back() : Variable(), how);
  }
};

inline double inverse_root(std::int64_t dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

// Swin's windows, computed step by step as in its paper. The token numbers are rolled and then cut
// into windows. So are the region numbers, which are painted over each other.
struct Windows {
  std::vector<std::int64_t> tokens, regions;  // [windows, window^2]
};

inline Windows windows_of(std::int64_t grid_h, std::int64_t grid_w, std::int64_t window,
                          std::int64_t shift) {
  const std::int64_t count = grid_h * grid_w;
  std::vector<std::int64_t> rolled(static_cast<std::size_t>(count)), painted(rolled.size());
  auto at = [&](auto& map, std::int64_t y, std::int64_t x) -> std::int64_t& {
    return map[static_cast<std::size_t>(y * grid_w + x)];
  };
  for (std::int64_t token = 0; token < count; ++token) {
    const std::int64_t y = token / grid_w, x = token % grid_w;
    at(rolled, (y - shift + grid_h) % grid_h, (x - shift + grid_w) % grid_w) = token;
  }
  std::int64_t number = 0;
  for (std::int64_t top : {std::int64_t{0}, grid_h - window, grid_h - shift}) {
    for (std::int64_t left : {std::int64_t{0}, grid_w - window, grid_w - shift}) {
      for (std::int64_t y = top; y < grid_h; ++y) {
        for (std::int64_t x = left; x < grid_w; ++x) at(painted, y, x) = number;
      }
      ++number;
    }
  }
  Windows w;
  for (std::int64_t top = 0; top < grid_h; top += window) {
    for (std::int64_t left = 0; left < grid_w; left += window) {
      for (std::int64_t y = top; y < top + window; ++y) {
        for (std::int64_t x = left; x < left + window; ++x) {
          w.tokens.push_back(at(rolled, y, x));
          if (shift) w.regions.push_back(at(painted, y, x));
        }
      }
    }
  }
  return w;
}

// Windows of a grid; q of all heads, then k, then v.
inline GroupedCase swin_case(std::int64_t batch, std::int64_t grid_h, std::int64_t grid_w,
                             std::int64_t window, std::int64_t shift, std::int64_t heads,
                             std::int64_t dim) {
  const std::int64_t n = window * window, width = heads * dim;
  const Windows w = windows_of(grid_h, grid_w, window, shift);
  return {cat("swin ", grid_h, " x ", grid_w, " shift ", shift),
          {batch, grid_h * grid_w, 3 * width},
          {},
          {heads, n, n},
          {heads,
           {0, dim, dim},
           {width, dim, dim},
           {2 * width, dim, dim},
           inverse_root(dim),
           ops::TokenGroups::make(w.tokens, w.regions, grid_h * grid_w / n, kCpu)}};
}

// All tokens attend to a reduced map; all keys, then all values.
inline GroupedCase pvt_case(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                            std::int64_t heads, std::int64_t dim) {
  const std::int64_t width = heads * dim;
  return {cat("pvt ", queries, " x ", keys),
          {batch, queries, width},
          {batch, keys, 2 * width},
          {},
          {heads, {0, dim, dim}, {0, dim, dim}, {width, dim, dim}, inverse_root(dim), nullptr}};
}

// The q, k and v of each head are adjacent.
inline GroupedCase levit_case(std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                              std::int64_t key_dim, std::int64_t value_dim) {
  const std::int64_t each = 2 * key_dim + value_dim;
  return {cat("levit ", tokens),
          {batch, tokens, heads * each},
          {},
          {heads, tokens, tokens},
          {heads,
           {0, each, key_dim},
           {key_dim, each, key_dim},
           {2 * key_dim, each, value_dim},
           inverse_root(key_dim),
           nullptr}};
}

inline GroupedCase levit_shrink_case(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                                     std::int64_t heads, std::int64_t key_dim,
                                     std::int64_t value_dim) {
  const std::int64_t each = key_dim + value_dim;
  return {cat("levit ", queries, " x ", keys),
          {batch, queries, heads * key_dim},
          {batch, keys, heads * each},
          {heads, queries, keys},
          {heads,
           {0, key_dim, key_dim},
           {0, each, key_dim},
           {key_dim, each, value_dim},
           inverse_root(key_dim),
           nullptr}};
}

// One head and a custom scale. Attention does not use the last columns.
inline GroupedCase t2t_case(std::int64_t batch, std::int64_t tokens, std::int64_t dim,
                            double scale) {
  return {cat("t2t ", tokens),
          {batch, tokens, 3 * dim + 2},
          {},
          {},
          {1, {0, 0, dim}, {dim, 0, dim}, {2 * dim, 0, dim}, scale, nullptr}};
}

}  // namespace dtn::test
