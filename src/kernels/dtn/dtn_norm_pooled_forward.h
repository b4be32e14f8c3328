// Forward pass of Dynamic Token Normalization with the statistics of cells; see dtn_norm_pooled.h
// for the order of work and dtn_norm.h for the formulas.
#pragma once

#include "kernels/dtn/dtn_norm_forward.h"
#include "kernels/dtn/dtn_norm_pooled.h"

namespace dtn::DTN_ISA {

template <class T, DtnVariant variant>
class PooledForward : DtnForwardParts<T, variant> {
  using Parts = DtnForwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::lanes, Parts::kOfficial;
  using Parts::head_scale, Parts::input, Parts::output, Parts::make_pivot, Parts::pivots,
      Parts::token_statistics;
  using typename Parts::A;

 public:
  PooledForward(const DtnNormForward& args, Scratch::Scope& scope)
      : Parts(args, scope), groups_(sizes_), lines_(sizes_, groups_.count()) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    HeadPositions<A> positions(sizes_, variant, args_.pos_weight, false, scope);
    for_image_ranges(sizes_, positions, [&](std::int64_t first, std::int64_t images) {
      run_images(queue, positions, first, images);
    });
  }

 private:
  // Workspace of one image, [cells, groups, lanes].
  struct PooledGrid {
    A *means, *z1, *z2, *m2;  // m1 overwrites the means
  };
  std::int64_t size() const { return sizes_.cells * groups_.count() * lanes; }

  PooledGrid make_pooled(Scratch::Scope& scope, std::int64_t images) const {
    const std::int64_t all = images * size();
    return {scope.take<A>(all), scope.take<A>(all), scope.take<A>(all), scope.take<A>(all)};
  }
  PooledGrid of(const PooledGrid& all, std::int64_t b) const {
    const std::int64_t at = b * size();
    return {all.means + at, all.z1 + at, all.z2 + at, all.m2 + at};
  }

  void run_images(CpuQueue& queue, HeadPositions<A>& positions, std::int64_t first,
                  std::int64_t images) {
    Scratch::Scope scope(queue.scratch());
    const PooledGrid all = make_pooled(scope, images);
    const std::int64_t bands = sizes_.pooled_h;
    token_statistics(first, images);
    parallel_for(images, [&](std::int64_t b) { make_pivots(first + b); });
    parallel_for(images * bands, [&](std::int64_t i) {
      make_means(first + i / bands, i % bands, of(all, i / bands));
    });
    for_groups_in_waves(images, positions, groups_, [&](std::int64_t b, std::int64_t g) {
      make_moments(positions, g, of(all, b));
    });
    parallel_for(images * bands, [&](std::int64_t i) {
      write_band(first + i / bands, i % bands, of(all, i / bands));
    });
  }

  void make_pivots(std::int64_t b) const {
    const A base = mean_base<variant>(sizes_, input(b));
    for (std::int64_t g = 0; g < groups_.count(); ++g) {
      with_count<A>(groups_[g],
                    [&](auto count) { make_pivot(b, groups_[g].channel, count, base); });
    }
  }

  void make_means(std::int64_t b, std::int64_t band, const PooledGrid& c) const {
    cell_means<variant>(sizes_, groups_, band, input(b), pivots(b), head_scale(b, 0), c.means);
  }

  void make_moments(const HeadPositions<A>& positions, std::int64_t g, const PooledGrid& c) const {
    const std::int64_t h = groups_[g].head, at = g * lanes;
    cell_moments<A>(lines_, positions.along_rows(h), positions.down_columns(h), c.means + at,
                    c.z1 + at, c.z2 + at, c.means + at, c.m2 + at);
  }

  void write_band(std::int64_t b, std::int64_t band, const PooledGrid& c) const {
    const A base = mean_base<variant>(sizes_, input(b));
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens;
    const A* var = static_cast<const A*>(args_.token_var) + b * sizes_.tokens;
    std::int64_t at = band * sizes_.pooled_w * groups_.count() * lanes;
    for (std::int64_t column = 0; column < sizes_.pooled_w; ++column) {
      groups_.for_each([&](std::int64_t, const ChannelGroup& group) {
        with_count<A>(group, [&](auto count) {
          write_cell(b, band, column, group, count, base, mean, var, load(c.means + at),
                     load(c.m2 + at));
        });
        at += lanes;
      });
    }
  }

  // Writes one group of channels of the tokens of a cell with the moments m, m2.
  template <class N>
  [[gnu::always_inline]] void write_cell(std::int64_t b, std::int64_t band, std::int64_t column,
                                         const ChannelGroup& group, N count, A base, const A* mean,
                                         const A* var, Vec<A> m, Vec<A> m2) const {
    const std::int64_t head = group.head, channel = group.channel;
    const Vec<A> pivot = load_n(pivots(b) + channel, count);
    const A mean_share = static_cast<const A*>(args_.lambda_mean)[head];
    const A var_share = static_cast<const A*>(args_.lambda_var)[head];
    const Vec<A> weight = load_gains<A>(args_, b, channel, count);
    const Vec<A> bias = load_shifts<A>(args_, b, channel, count);
    const double* scale = head_scale(b, head);
    Vec<A> v = m2 - m * m;
    if constexpr (!kOfficial) v = max(Vec<A>{}, v);
    const Vec<A> of_cell = (1 - mean_share) * m, var_of_cell = (1 - var_share) * v;
    const Vec<A> offset = base - pivot;  // makes a stored token mean relative to the pivots
    const T* x = input(b) + channel;
    T* y = output(b) + channel;
    for_each_token_of_cell(sizes_, band, column, [&](std::int64_t t, std::int64_t) {
      const Vec<A> value =
          relative_to_pivot<variant, A>(load_n(x + t * sizes_.channels, count), scale, t, pivot);
      prefetch_ahead(sizes_, y + t * sizes_.channels);
      const Vec<A> mu = mean_share * (broadcast(mean[t]) + offset) + of_cell;
      const Vec<A> total = var_of_cell + broadcast(var_share * var[t] + static_cast<A>(args_.eps));
      store_n(y + t * sizes_.channels, (value - mu) * rsqrt(total) * weight + bias, count);
    });
  }

  ChannelGroups<A> groups_;
  PooledLines lines_;
};

}  // namespace dtn::DTN_ISA
