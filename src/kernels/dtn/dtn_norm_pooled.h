// Shared by the forward and backward kernels of DTN with the statistics of cells of s x s tokens,
// s > 1. The passes are then short, and the time depends on how often the tokens are read. So the
// kernels go through images token by token, one band of s rows of the grid at a time. Data of cells
// have the same order: [cells, groups of channels, lanes].
#pragma once

#include <cstdint>

#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {

// One vector of channels of one head; the first `count` lanes are in use.
struct ChannelGroup {
  std::int64_t head, channel;
  int count;
};

// Calls f with the number of a group's channels, which is a constant for a whole vector.
template <class A, class F>
inline void with_count(const ChannelGroup& group, F&& f) {
  if (group.count == kLanes<A>) {
    f(std::integral_constant<int, kLanes<A>>{});
  } else {
    f(group.count);
  }
}

// The groups of all heads; groups of the same head are adjacent.
template <class A>
class ChannelGroups {
 public:
  explicit ChannelGroups(const DtnSizes& sizes)
      : heads_(sizes.heads),
        head_dim_(sizes.head_dim),
        per_head_((sizes.head_dim + kLanes<A> - 1) / kLanes<A>) {}

  std::int64_t count() const { return heads_ * per_head_; }
  std::int64_t per_head() const { return per_head_; }
  ChannelGroup operator[](std::int64_t g) const { return of(g / per_head_, g % per_head_); }

  // Calls f(g, group) for all groups in order.
  template <class F>
  void for_each(F&& f) const {
    for (std::int64_t h = 0, g = 0; h < heads_; ++h) {
      for (std::int64_t k = 0; k < per_head_; ++k, ++g) f(g, of(h, k));
    }
  }

 private:
  ChannelGroup of(std::int64_t head, std::int64_t k) const {
    const std::int64_t first = k * kLanes<A>, left = head_dim_ - first;
    return {head, head * head_dim_ + first, static_cast<int>(left < kLanes<A> ? left : kLanes<A>)};
  }
  std::int64_t heads_, head_dim_, per_head_;
};

// Lines of values [cells, groups, lanes] for the passes along each axis. The values of group g
// begin g vectors further.
struct PooledLines {
  PooledLines(const DtnSizes& sizes, std::int64_t groups)
      : rows{sizes.pooled_w, groups, sizes.pooled_h, sizes.pooled_w * groups},
        columns{sizes.pooled_h, sizes.pooled_w * groups, sizes.pooled_w, groups} {}
  Lines rows, columns;
};

// Calls f(t, i) for the tokens of a cell; token t of the grid is token i of its band of s rows.
template <class F>
inline void for_each_token_of_cell(const DtnSizes& sizes, std::int64_t band, std::int64_t column,
                                   F&& f) {
  const std::int64_t s = sizes.pool, width = sizes.grid_w;
  for (std::int64_t y = 0; y < s; ++y) {
    for (std::int64_t x = 0; x < s; ++x) {
      const std::int64_t i = y * width + column * s + x;
      f(band * s * width + i, i);
    }
  }
}

// Prefetches the data at `p`, some tokens ahead. The tokens of a cell are too far apart for the
// hardware prefetcher.
template <class T>
[[gnu::always_inline]] inline void prefetch_ahead(const DtnSizes& sizes, const T* p) {
  constexpr std::int64_t kTokens = 8;
  const std::int64_t further = sizes.pool > kTokens ? sizes.pool : kTokens;
  __builtin_prefetch(p + further * sizes.channels, 0, 2);
}

// Value of token t for the cross-token statistics. scale: head_rstd of the head [T].
template <DtnVariant variant, class A, class V>
inline V relative_to_pivot(V v, const double* scale, std::int64_t t, V pivot) {
  if constexpr (variant == DtnVariant::kOfficial) return scale_and_shift<A>(v, scale[t], pivot);
  return v - pivot;
}

// Computes the means of an image x over the cells of one band, relative to the pivots [C]. scale:
// head_rstd of the image [H, T], used only by the official variant.
template <DtnVariant variant, class T, class A = AccumulatorOf<T>>
void cell_means(const DtnSizes& sizes, const ChannelGroups<A>& groups, std::int64_t band,
                const T* x, const A* pivots, const double* scale, A* cells) {
  constexpr int lanes = kLanes<A>;
  const A share = sizes.template cell_share<A>();
  A* out = cells + band * sizes.pooled_w * groups.count() * lanes;
  for (std::int64_t column = 0; column < sizes.pooled_w; ++column) {
    groups.for_each([&](std::int64_t, const ChannelGroup& group) {
      const double* head_scale = nullptr;
      if constexpr (variant == DtnVariant::kOfficial)
        head_scale = scale + group.head * sizes.tokens;
      const T* from = x + group.channel;
      with_count<A>(group, [&](auto count) {
        const Vec<A> pivot = load_n(pivots + group.channel, count);
        Vec<A> sum{};
        for_each_token_of_cell(sizes, band, column, [&](std::int64_t t, std::int64_t) {
          prefetch_ahead(sizes, from + t * sizes.channels);
          const Vec<A> v = load_n(from + t * sizes.channels, count);
          sum += relative_to_pivot<variant, A>(v, head_scale, t, pivot);
        });
        store(out, sum * share);
      });
      out += lanes;
    });
  }
}

// Computes the moments of one group. z1, z2 are the pass of the means and of their squares down the
// columns. m1, m2 are the pass of z1, z2 along the rows. m1 may be `means`.
template <class A>
void cell_moments(const PooledLines& lines, const PositionMatrices<A>& rows,
                  const PositionMatrices<A>& columns, const A* means, A* z1, A* z2, A* m1, A* m2) {
  pass<A, Second::kSquare>(lines.columns, columns.forward(), means, nullptr, z1, z2);
  pass<A, Second::kPlane>(lines.rows, rows.forward(), z1, z2, m1, m2);
}

// Calls f(b, g) for b < images and the groups of all heads, in waves of the position matrices.
template <class A, class F>
void for_groups_in_waves(std::int64_t images, HeadPositions<A>& positions,
                         const ChannelGroups<A>& groups, F&& f) {
  positions.for_each_wave([&](std::int64_t begin, std::int64_t heads) {
    const std::int64_t count = heads * groups.per_head();
    parallel_for(images * count,
                 [&](std::int64_t i) { f(i / count, begin * groups.per_head() + i % count); });
  });
}

}  // namespace dtn::DTN_ISA
