// Backward pass of Dynamic Token Normalization with the statistics of cells; see dtn_norm_pooled.h
// for the order of work and dtn_norm.h for the formulas.
#pragma once

#include "kernels/dtn/dtn_norm_backward.h"
#include "kernels/dtn/dtn_norm_pooled.h"

namespace dtn::DTN_ISA {

template <class T, DtnVariant variant>
class PooledBackward : DtnBackwardParts<T, variant> {
  using Parts = DtnBackwardParts<T, variant>;
  using Parts::args_, Parts::sizes_, Parts::image_, Parts::lanes, Parts::kOfficial, Parts::kInPlace;
  using Parts::head_scale, Parts::input, Parts::keep, Parts::output_gradient, Parts::pivots,
      Parts::residual_gradient, Parts::unfinished;
  using typename Parts::A, typename Parts::ChannelSums, typename Parts::LambdaSums;

 public:
  PooledBackward(const DtnNormBackward& args, Scratch::Scope& scope)
      : Parts(args, scope),
        groups_(sizes_),
        lines_(sizes_, groups_.count()),
        position_sums_(scope.take<PositionSums<A>>(sizes_.batch * groups_.count() * 2)) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    HeadPositions<A> positions(sizes_, variant, args_.pos_weight, args_.dpos_weight, scope);
    for_image_ranges(sizes_, positions, [&](std::int64_t first, std::int64_t images) {
      run_images(queue, positions, first, images);
    });
    this->add_parameter_gradients();
    if (args_.dpos_weight) add_position_sums();
  }

 private:
  // Contributions of the tokens of a band to the parameter gradients, for one group.
  struct BandSums {
    ChannelSums channels;
    LambdaSums lambdas;
  };
  // Workspace of one image. PooledGrid are [cells, groups, lanes]. dm holds the gradients of the
  // moments, then those of the cells.
  struct Image {
    A *means, *z1, *z2, *m1, *m2, *dm1, *dm2;
    A *by_mean, *by_var;  // [T]: sums over channels of l_mu dmu and of l_va dvar
    BandSums* band_sums;  // [bands, groups]
    A* dx;                // [T, C] unfinished, or null
  };
  std::int64_t pooled_size() const { return sizes_.cells * groups_.count() * lanes; }

  Image make_images(Scratch::Scope& scope, std::int64_t count, std::int64_t b) const {
    Image i;
    for (A** cells : {&i.means, &i.z1, &i.z2, &i.m1, &i.m2, &i.dm1, &i.dm2}) {
      *cells = scope.take<A>(count * pooled_size());
    }
    i.by_mean = scope.take<A>(count * sizes_.padded_tokens);
    i.by_var = scope.take<A>(count * sizes_.padded_tokens);
    i.band_sums = scope.take<BandSums>(count * sizes_.pooled_h * groups_.count());
    i.dx = unfinished(scope, count, b);
    return i;
  }
  Image of(const Image& all, std::int64_t b) const {
    Image i = all;
    for (A** cells : {&i.means, &i.z1, &i.z2, &i.m1, &i.m2, &i.dm1, &i.dm2}) {
      *cells += b * pooled_size();
    }
    i.by_mean += b * sizes_.padded_tokens;
    i.by_var += b * sizes_.padded_tokens;
    i.band_sums += b * sizes_.pooled_h * groups_.count();
    if (i.dx) i.dx += b * image_;
    return i;
  }

  void run_images(CpuQueue& queue, HeadPositions<A>& positions, std::int64_t first,
                  std::int64_t images) {
    Scratch::Scope scope(queue.scratch());
    const Image all = make_images(scope, images, first);
    const std::int64_t bands = sizes_.pooled_h;
    auto for_bands = [&](auto&& f) {
      parallel_for(images * bands,
                   [&](std::int64_t k) { f(first + k / bands, k % bands, of(all, k / bands)); });
    };
    for_bands([&](std::int64_t b, std::int64_t band, const Image& i) { make_means(b, band, i); });
    for_groups_in_waves(images, positions, groups_, [&](std::int64_t b, std::int64_t g) {
      make_moments(positions, g, of(all, b));
    });
    for_bands([&](std::int64_t b, std::int64_t band, const Image& i) {
      band_gradients(queue, b, band, i);
    });
    for_groups_in_waves(images, positions, groups_, [&](std::int64_t b, std::int64_t g) {
      cell_gradients(positions, first + b, g, of(all, b));
    });
    if (all.dx) {
      for_bands(
          [&](std::int64_t b, std::int64_t band, const Image& i) { finish_band(b, band, i); });
    }
    parallel_for(images, [&](std::int64_t b) { add_bands(first + b, of(all, b)); });
  }

  void make_means(std::int64_t b, std::int64_t band, const Image& i) const {
    cell_means<variant>(sizes_, groups_, band, input(b), pivots(b), head_scale(b, 0), i.means);
  }

  void make_moments(const HeadPositions<A>& positions, std::int64_t g, const Image& i) const {
    const std::int64_t h = groups_[g].head, at = g * lanes;
    cell_moments<A>(lines_, positions.along_rows(h), positions.down_columns(h), i.means + at,
                    i.z1 + at, i.z2 + at, i.m1 + at, i.m2 + at);
  }

  // Sums for each token of a band, one vector of lanes per token.
  struct TokenSums {
    A *by_mean, *by_var;
  };

  // Computes all gradients that need no pass, for the tokens of a band.
  void band_gradients(CpuQueue& queue, std::int64_t b, std::int64_t band, const Image& i) const {
    Scratch::Scope scope(queue.scratch());
    const std::int64_t tokens = sizes_.pool * sizes_.grid_w, groups = groups_.count();
    const std::int64_t room = (tokens + lanes - 1) / lanes * lanes * lanes;
    const TokenSums token{scope.take<A>(room), scope.take<A>(room)};
    for (std::int64_t k = 0; k < room; ++k) token.by_mean[k] = token.by_var[k] = 0;
    const A base = mean_base<variant>(sizes_, input(b));
    BandSums* sums = i.band_sums + band * groups;
    for (std::int64_t g = 0; g < groups; ++g) sums[g] = {};
    std::int64_t at = band * sizes_.pooled_w * groups * lanes;
    for (std::int64_t column = 0; column < sizes_.pooled_w; ++column) {
      groups_.for_each([&](std::int64_t g, const ChannelGroup& group) {
        with_count<A>(group, [&](auto count) {
          cell_of_group(b, band, column, group, count, base, at, i, token, sums[g]);
        });
        at += lanes;
      });
    }
    const std::int64_t first = band * tokens;
    for (std::int64_t t = 0; t < tokens; t += lanes) {
      const int count = static_cast<int>(tokens - t < lanes ? tokens - t : lanes);
      store_n(i.by_mean + first + t, reduce_add_each<A>(token.by_mean + t * lanes), count);
      store_n(i.by_var + first + t, reduce_add_each<A>(token.by_var + t * lanes), count);
    }
  }

  // The same for one cell and one group; the data of the cell begin at element `at`.
  template <class N>
  [[gnu::always_inline]] void cell_of_group(std::int64_t b, std::int64_t band, std::int64_t column,
                                            const ChannelGroup& group, N count, A base,
                                            std::int64_t at, const Image& image,
                                            const TokenSums& token, BandSums& sums) const {
    const std::int64_t head = group.head, channel = group.channel, channels = sizes_.channels;
    const A mean_share = static_cast<const A*>(args_.lambda_mean)[head];
    const A var_share = static_cast<const A*>(args_.lambda_var)[head];
    const A eps = static_cast<A>(args_.eps);
    const Vec<A> weight = load_gains<A>(args_, b, channel, count);
    const Vec<A> pivot = load_n(pivots(b) + channel, count);
    const Vec<A> m = load(image.m1 + at), raw = load(image.m2 + at) - m * m;
    Vec<A> v = raw;
    if constexpr (!kOfficial) v = max(Vec<A>{}, raw);
    const Vec<A> var_of_cell = (1 - var_share) * v;
    // Makes a stored token mean relative to the pivots, and subtracts m.
    const Vec<A> offset = base - pivot - m;
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens;
    const A* var = static_cast<const A*>(args_.token_var) + b * sizes_.tokens;
    const double* scale = head_scale(b, head);
    const T* x = input(b) + channel;
    const T* dy = output_gradient(b) + channel;
    const T* residual = kInPlace && args_.dx_add ? residual_gradient(b) + channel : nullptr;
    A* dx = image.dx ? image.dx + channel : nullptr;
    ChannelSums add;  // of this cell: short partial sums lose less to rounding
    Vec<A> dmean_share{}, dvar_share{}, sum_direct{}, sum_q{};
    for_each_token_of_cell(sizes_, band, column, [&](std::int64_t t, std::int64_t in_band) {
      const Vec<A> value =
          relative_to_pivot<variant, A>(load_n(x + t * channels, count), scale, t, pivot);
      prefetch_ahead(sizes_, x + t * channels);
      prefetch_ahead(sizes_, dy + t * channels);
      if (dx) prefetch_ahead(sizes_, dx + t * channels);
      const Vec<A> from_token = broadcast(mean[t]) + offset;
      const Vec<A> r = rsqrt(var_of_cell + broadcast(var_share * var[t] + eps));
      const Vec<A> xhat = (value - (m + mean_share * from_token)) * r;
      const Vec<A> g = load_n(dy + t * channels, count);
      add.weight += g * xhat;
      add.bias += g;
      const Vec<A> direct = g * weight * r;  // -dmu
      const Vec<A> q = direct * xhat * r;    // -2 dvar
      dmean_share += direct * from_token;
      dvar_share += q * (broadcast(var[t]) - v);
      sum_direct += direct;
      sum_q += q;
      A *by_mean = token.by_mean + in_band * lanes, *by_var = token.by_var + in_band * lanes;
      store(by_mean, load(by_mean) - mean_share * direct);
      store(by_var, load(by_var) - A(0.5) * var_share * q);
      if (!dx) return;
      Vec<A> d = direct;
      if (residual) d += load_n(residual + t * channels, count);
      store_n(dx + t * channels, d, count);
    });
    Vec<A> dm2 = A(-0.5) * (1 - var_share) * sum_q;
    if constexpr (!kOfficial) dm2 = raw < A(0) ? Vec<A>{} : dm2;
    store(image.dm1 + at, (mean_share - 1) * sum_direct - dm2 * (m + m));
    store(image.dm2 + at, dm2);
    sums.channels.weight += add.weight;
    sums.channels.bias += add.bias;
    sums.lambdas.mean += dmean_share;
    sums.lambdas.var += dvar_share;
  }

  // For one group: computes the gradients of its positions, and in dm1 the gradient that each token
  // gets through its cell.
  void cell_gradients(const HeadPositions<A>& positions, std::int64_t b, std::int64_t g,
                      const Image& image) const {
    const std::int64_t h = groups_[g].head, first = g * lanes, step = groups_.count() * lanes;
    const PositionMatrices<A> rows = positions.along_rows(h), columns = positions.down_columns(h);
    A *dm1 = image.dm1 + first, *dm2 = image.dm2 + first;
    A *dz1 = image.m1 + first, *dz2 = image.m2 + first;  // overwrite the moments
    const A* means = image.means + first;
    PositionSums<A> along, down;
    if (args_.dpos_weight) {
      position_sums<A, Second::kPlane>(lines_.rows, dm1, dm2, image.z1 + first, image.z2 + first,
                                       rows.weights(), along);
    }
    pass<A, Second::kPlane>(lines_.rows, rows.transposed(), dm1, dm2, dz1, dz2);
    if (args_.dpos_weight) {
      position_sums<A, Second::kSquare>(lines_.columns, dz1, dz2, means, nullptr, columns.weights(),
                                        down);
    }
    position_sums_[(b * groups_.count() + g) * 2] = along;
    position_sums_[(b * groups_.count() + g) * 2 + 1] = down;
    if (!image.dx) return;
    pass<A, Second::kPlane>(lines_.columns, columns.transposed(), dz1, dz2, dm1, dm2);
    const A share = sizes_.template cell_share<A>();
    for (std::int64_t at = 0; at < sizes_.cells * step; at += step) {
      store(dm1 + at, share * (load(dm1 + at) + 2 * load(means + at) * load(dm2 + at)));
    }
  }

  // Adds the gradients through the cells and through the statistics of whole tokens to the
  // unfinished dx of a band. Then (official) applies the backward of the division by the head's
  // root mean square.
  void finish_band(std::int64_t b, std::int64_t band, const Image& i) const {
    const std::int64_t channels = sizes_.channels, width = sizes_.grid_w, groups = groups_.count();
    const A base = mean_base<variant>(sizes_, input(b));
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens;
    const A mean_factor = 1 / static_cast<A>(channels);
    const A var_factor = 2 / static_cast<A>(kOfficial ? channels - 1 : channels);
    const std::int64_t first = band * sizes_.pool * width;
    for (std::int64_t t = first; t < first + sizes_.pool * width; ++t) {
      const A constant = i.by_mean[t] * mean_factor, slope = i.by_var[t] * var_factor;
      const T* x = input(b) + t * channels;
      const T* add = kInPlace || !args_.dx_add ? nullptr : residual_gradient(b) + t * channels;
      T* out = static_cast<T*>(args_.dx) + b * image_ + t * channels;
      A* d = i.dx + t * channels;
      const std::int64_t column = (t - first) % width / sizes_.pool;
      const A* through = i.dm1 + (band * sizes_.pooled_w + column) * groups * lanes;
      groups_.for_each([&](std::int64_t, const ChannelGroup& group) {
        with_count<A>(group, [&](auto count) {
          const std::int64_t c = group.channel;
          Vec<A> v = load_n(d + c, count) + load(through);
          if constexpr (kOfficial) {
            store_n(d + c, v, count);
          } else {
            v += (load_n(x + c, count) - base - mean[t]) * slope + constant;
            if (add) v += load_n(add + c, count);
            store_n(out + c, v, count);
          }
        });
        through += lanes;
      });
      if constexpr (kOfficial) {
        for (std::int64_t h = 0; h < sizes_.heads; ++h) {
          const std::int64_t c = h * sizes_.head_dim;
          this->finish_head(x + c, head_scale(b, h)[t], base, mean[t], constant, slope, d + c,
                            add ? add + c : nullptr, out + c);
        }
      }
    }
  }

  // Adds the sums of the bands of an image, in order.
  void add_bands(std::int64_t b, const Image& i) const {
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      LambdaSums lambdas;
      for (std::int64_t k = 0; k < groups_.per_head(); ++k) {
        const std::int64_t g = h * groups_.per_head() + k;
        ChannelSums channels;
        for (std::int64_t band = 0; band < sizes_.pooled_h; ++band) {
          const BandSums& sums = i.band_sums[band * groups_.count() + g];
          channels.weight += sums.channels.weight;
          channels.bias += sums.channels.bias;
          lambdas.mean += sums.lambdas.mean;
          lambdas.var += sums.lambdas.var;
        }
        with_count<A>(groups_[g],
                      [&](auto count) { keep(b, groups_[g].channel, count, channels); });
      }
      keep(b, h, lambdas);
    }
  }

  // Adds image by image.
  void add_position_sums() const {
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      for (std::int64_t h = 0; h < sizes_.heads; ++h) {
        PositionSums<A> along, down;
        for (std::int64_t k = 0; k < groups_.per_head(); ++k) {
          const std::int64_t g = b * groups_.count() + h * groups_.per_head() + k;
          along += position_sums_[2 * g];
          down += position_sums_[2 * g + 1];
        }
        A* out = static_cast<A*>(args_.dpos_weight) + 3 * h;
        out[0] += reduce_add(along.offset);
        out[1] += reduce_add(down.offset);
        out[2] += reduce_add(along.square + down.square);
      }
    }
  }

  ChannelGroups<A> groups_;
  PooledLines lines_;
  PositionSums<A>* position_sums_;  // [B, groups, 2]: along the rows, down the columns
};

}  // namespace dtn::DTN_ISA
