// Shared by the backward passes of Dynamic Token Normalization, for all ways to compute the moments
// across tokens. The first step computes the gradients of the moments and all other gradients
// except those of positions, one vector of channels and one row of the grid at a time. The second
// step processes whole tokens: it adds the two terms of dx that sum over all channels of a token.
// See dtn_norm.h for the formulas.
#pragma once

#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {

template <class T, DtnVariant variant>
class DtnBackwardParts : protected DtnParts<T, variant, DtnNormBackward> {
 protected:
  using Parts = DtnParts<T, variant, DtnNormBackward>;
  using Parts::args_, Parts::sizes_, Parts::lanes, Parts::kOfficial, Parts::input,
      Parts::head_scale;
  using typename Parts::A;
  // True if dx can hold the result of the first step, dx_add included; otherwise it is in scratch
  // memory.
  static constexpr bool kInPlace = !kOfficial && std::is_same_v<T, A>;

  // Prefetch distance in tokens, from the second-level cache. If tokens are a power of two apart,
  // the first-level cache cannot hold more of them.
  static constexpr std::int64_t kAhead = 8;

  DtnBackwardParts(const DtnNormBackward& args, Scratch::Scope& scope)
      : Parts(args),
        image_(sizes_.image),
        head_sums_(scope.take<HeadSums>(sizes_.batch * sizes_.heads)),
        channel_sums_(scope.take<A>(sizes_.batch * 2 * sizes_.channels)) {}

  // [2, H, padded tokens]: sums over a head's channels of l_mu dmu and of l_va dvar.
  std::int64_t token_sums() const { return 2 * sizes_.heads * sizes_.padded_tokens; }

  // Planes of one head, one vector per token. dm is computed row by row. direct is dxhat r, the
  // part of dx that does not go through the statistics, padded to whole vectors of tokens.
  struct Planes {
    A *x, *dm1, *dm2, *direct;
    A* mixed;  // [T], see mix_variances
  };
  // Sums over one head of one image.
  struct HeadSums {
    A lambda_mean, lambda_var;
  };
  // Sums per lane over the groups of a head. mean lacks a factor -1, var a factor -1/2.
  struct LambdaSums {
    Vec<A> mean{}, var{};
  };
  // Sums over the tokens, for one group of channels.
  struct ChannelSums {
    Vec<A> weight{}, bias{};
  };

  // Returns memory for the unfinished dx of `count` images from image b on; null without dx.
  A* unfinished(Scratch::Scope& scope, std::int64_t count, std::int64_t b = 0) const {
    if (!args_.dx) return nullptr;
    return kInPlace ? static_cast<A*>(args_.dx) + b * image_ : scope.take<A>(count * image_);
  }

  Planes make_planes(Scratch::Scope& scope, std::int64_t b, std::int64_t h) const {
    const std::int64_t size = sizes_.tokens * lanes;
    Planes p{scope.take<A>(size), scope.take<A>(size), scope.take<A>(size),
             scope.take<A>(sizes_.padded_tokens * lanes), scope.take<A>(sizes_.tokens)};
    mix_variances(sizes_, static_cast<const A*>(args_.token_var) + b * sizes_.tokens,
                  static_cast<const A*>(args_.lambda_var)[h], args_.eps, p.mixed);
    return p;
  }

  const T* residual_gradient(std::int64_t b) const {
    return args_.dx_add ? static_cast<const T*>(args_.dx_add) + b * image_ : nullptr;
  }
  const T* output_gradient(std::int64_t b) const {
    return static_cast<const T*>(args_.dy) + b * image_;
  }

  // Sums over the channels of each token, in token order: of the plane `direct`, and of a second
  // value passed to add(). The sums for one vector of tokens are computed together.
  class TokenSums {
   public:
    TokenSums(const A* direct, A direct_factor, A second_factor, A* by_mean, A* by_var)
        : direct_(direct),
          direct_factor_(direct_factor),
          second_factor_(second_factor),
          by_mean_(by_mean),
          by_var_(by_var) {}
    void add(std::int64_t t, Vec<A> second) {
      const int slot = static_cast<int>(t % lanes);
      store(second_ + slot * lanes, second);
      if (slot == lanes - 1) flush(t + 1 - lanes);
    }
    void finish(std::int64_t tokens) {
      if (tokens % lanes) flush(tokens - tokens % lanes);
    }

   private:
    void flush(std::int64_t t) {
      store(by_mean_ + t,
            load(by_mean_ + t) + direct_factor_ * reduce_add_each<A>(direct_ + t * lanes));
      store(by_var_ + t, load(by_var_ + t) + second_factor_ * reduce_add_each<A>(second_));
    }
    const A* direct_;
    A direct_factor_, second_factor_;
    A *by_mean_, *by_var_;
    A second_[lanes * lanes] = {};
  };

  // Returns the sums of head h, set to 0. token_sums belongs to the image.
  TokenSums sums_of_tokens(std::int64_t h, const Planes& p, A* token_sums) const {
    A* by_mean = token_sums + h * sizes_.padded_tokens;
    A* by_var = by_mean + sizes_.heads * sizes_.padded_tokens;
    for (std::int64_t t = 0; t < sizes_.padded_tokens; ++t) by_mean[t] = by_var[t] = 0;
    return {p.direct, -static_cast<const A*>(args_.lambda_mean)[h],
            A(-0.5) * static_cast<const A*>(args_.lambda_var)[h], by_mean, by_var};
  }

  // Prefetches the data of one row for the next group; see prefetch_group.
  [[gnu::always_inline]] void prefetch_row(std::int64_t b, std::int64_t channel, std::int64_t row,
                                           const A* dx) const {
    const std::int64_t first = row * sizes_.grid_w;
    prefetch_group(sizes_, input(b) + channel, first, sizes_.grid_w);
    prefetch_group(sizes_, output_gradient(b) + channel, first, sizes_.grid_w);
    if (kInPlace && dx) prefetch_group(sizes_, dx + channel, first, sizes_.grid_w);
    if (kInPlace && args_.dx_add) {
      prefetch_group(sizes_, residual_gradient(b) + channel, first, sizes_.grid_w);
    }
  }

  // Gradients of row `row` of the grid, with its moments m1, m2. The planes hold the whole image.
  template <class N>
  void row_gradients(std::int64_t b, std::int64_t h, std::int64_t channel, N count, Vec<A> offset,
                     std::int64_t row, const A* m1, const A* m2, const Planes& p,
                     ChannelSums& channel_sums, LambdaSums& sums, TokenSums& token_sums) const {
    const std::int64_t first = row * sizes_.grid_w, end = first + sizes_.grid_w;
    tokens_gradients(b, h, channel, count, offset, first, sizes_.grid_w, first, m1, m2, p,
                     channel_sums, sums, token_sums);
    if (end == sizes_.tokens) token_sums.finish(end);
  }

  // Computes the gradients dm1, dm2 of the moments m1, m2 of tokens [first, first + tokens), and
  // all other gradients that need no pass. place: index of the first token in the planes and in
  // token_sums. offset: added to a stored token mean, makes it relative to the pivots.
  template <class N>
  void tokens_gradients(std::int64_t b, std::int64_t h, std::int64_t channel, N count,
                        Vec<A> offset, std::int64_t first, std::int64_t tokens, std::int64_t place,
                        const A* m1, const A* m2, const Planes& p, ChannelSums& channel_sums,
                        LambdaSums& sums, TokenSums& token_sums) const {
    const A mean_share = static_cast<const A*>(args_.lambda_mean)[h];
    const A var_share = static_cast<const A*>(args_.lambda_var)[h];
    const A dm2_share = A(-0.5) * (1 - var_share);
    const Vec<A> weight = load_gains<A>(args_, b, channel, count);
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens + first - place;
    const A* var = static_cast<const A*>(args_.token_var) + b * sizes_.tokens + first - place;
    const std::int64_t channels = sizes_.channels;
    const T* dy = output_gradient(b) + first * channels + channel;
    ChannelSums add;  // of these tokens: short partial sums lose less to rounding
    Vec<A> dmean_share{}, dvar_share{};
    for (std::int64_t t = place; t < place + tokens;
         ++t, dy += channels, m1 += lanes, m2 += lanes) {
      const std::int64_t at = t * lanes;
      __builtin_prefetch(dy + kAhead * channels);
      const Vec<A> m = load(m1), raw = load(m2) - m * m;
      Vec<A> v = raw;
      if constexpr (!kOfficial) v = max(Vec<A>{}, raw);
      const Vec<A> from_token = broadcast(mean[t]) + offset - m;
      const Vec<A> r = rsqrt((1 - var_share) * v + broadcast(p.mixed[t]));
      const Vec<A> xhat = (load(p.x + at) - (m + mean_share * from_token)) * r;
      const Vec<A> g = load_n(dy, count);
      add.weight += g * xhat;
      add.bias += g;
      const Vec<A> direct = g * weight * r;  // -dmu
      const Vec<A> q = direct * xhat * r;    // -2 dvar
      dmean_share += direct * from_token;
      dvar_share += q * (broadcast(var[t]) - v);
      Vec<A> dm2 = dm2_share * q;
      if constexpr (!kOfficial) dm2 = raw < A(0) ? Vec<A>{} : dm2;
      store(p.direct + at, direct);
      store(p.dm1 + at, (mean_share - 1) * direct - dm2 * (m + m));
      store(p.dm2 + at, dm2);
      token_sums.add(t, q);
    }
    channel_sums.weight += add.weight;
    channel_sums.bias += add.bias;
    sums.mean += dmean_share;
    sums.var += dvar_share;
  }

  // Stores the sums of one group, or of one head, for the sum over the images.
  template <class N>
  void keep(std::int64_t b, std::int64_t channel, N count, const ChannelSums& sums) const {
    A* out = channel_sums_ + b * 2 * sizes_.channels + channel;
    store_n(out, sums.weight, count);
    store_n(out + sizes_.channels, sums.bias, count);
  }
  void keep(std::int64_t b, std::int64_t h, const LambdaSums& sums) const {
    HeadSums& out = head_sums_[b * sizes_.heads + h];
    out.lambda_mean = -reduce_add(sums.mean);
    out.lambda_var = A(-0.5) * reduce_add(sums.var);
  }

  // Writes the unfinished dx of tokens [begin, end). value(at) is the gradient at element `at` of a
  // plane, without the sums over whole tokens. dx points to the group's channels in the image.
  template <class N, class F>
  void input_gradient(std::int64_t b, std::int64_t channel, N count, std::int64_t begin,
                      std::int64_t end, A* dx, F&& value) const {
    const std::int64_t channels = sizes_.channels;
    const T* add = kInPlace ? residual_gradient(b) : nullptr;
    if (add) add += channel;
    dx += begin * channels;
    for (std::int64_t t = begin; t < end; ++t, dx += channels) {
      __builtin_prefetch(dx + kAhead * channels, 1);
      Vec<A> d = value(t * lanes);
      if (add) d += load_n(add + t * channels, count);
      store_n(dx, d, count);
    }
  }

  // Adds the terms through mu_ln and var_ln, then (official) applies the backward of the division
  // by the head's root mean square. Writes tokens [begin, end) of dx.
  void finish(CpuQueue& queue, std::int64_t b, std::int64_t begin, std::int64_t end, A* dx,
              const A* token_sums) const {
    Scratch::Scope scope(queue.scratch());
    A* constant = scope.take<A>(sizes_.padded_tokens);
    A* slope = scope.take<A>(sizes_.padded_tokens);
    add_heads(token_sums, begin, end, 1 / static_cast<A>(sizes_.channels), constant);
    add_heads(token_sums + sizes_.heads * sizes_.padded_tokens, begin, end,
              2 / static_cast<A>(kOfficial ? sizes_.channels - 1 : sizes_.channels), slope);
    const A base = mean_base<variant>(sizes_, input(b));
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t at = b * image_ + t * sizes_.channels;
      const T* x = static_cast<const T*>(args_.x) + at;
      const T* add =
          kInPlace || !args_.dx_add ? nullptr : residual_gradient(b) + t * sizes_.channels;
      T* out = static_cast<T*>(args_.dx) + at;
      A* d = dx + t * sizes_.channels;
      if constexpr (kOfficial) {
        for (std::int64_t h = 0; h < sizes_.heads; ++h) {
          const std::int64_t c = h * sizes_.head_dim;
          finish_head(x + c, head_scale(b, h)[t], base, mean[t], constant[t], slope[t], d + c,
                      add ? add + c : nullptr, out + c);
        }
      } else {
        for_each_vector<A>(sizes_.channels, [&](std::int64_t c, auto count) {
          Vec<A> v = (load_n(x + c, count) - base - mean[t]) * slope[t] + constant[t];
          v += load_n(d + c, count);
          if (add) v += load_n(add + c, count);
          store_n(out + c, v, count);
        });
      }
    }
  }

  // The same for all tokens of some images. dx and all_sums begin at the first of them.
  void finish(CpuQueue& queue, std::int64_t first, std::int64_t images, A* dx,
              const A* all_sums) const {
    constexpr std::int64_t kTokens = 32;
    const std::int64_t chunks = (sizes_.tokens + kTokens - 1) / kTokens;
    parallel_for(images * chunks, [&](std::int64_t i) {
      const std::int64_t b = i / chunks, t = i % chunks * kTokens;
      const std::int64_t end = t + kTokens < sizes_.tokens ? t + kTokens : sizes_.tokens;
      finish(queue, first + b, t, end, dx + b * image_, all_sums + b * token_sums());
    });
  }

  // out[t] = factor * sum over heads of sums[h, t].
  void add_heads(const A* sums, std::int64_t begin, std::int64_t end, A factor, A* out) const {
    for (std::int64_t t = begin; t < end; ++t) {
      A sum = 0;
      for (std::int64_t h = 0; h < sizes_.heads; ++h) sum += sums[h * sizes_.padded_tokens + t];
      out[t] = sum * factor;
    }
  }

  // For one head of one token, with u = x s: dx = s (du - u mean(du u)).
  void finish_head(const T* x, double exact_scale, A base, A mean, A constant, A slope, A* du,
                   const T* add, T* out) const {
    const A scale = static_cast<A>(exact_scale);
    Vec<A> sum{};
    for_each_vector<A>(sizes_.head_dim, [&](std::int64_t c, auto count) {
      Vec<A> u = load_n(x + c, count) * scale;
      Vec<A> centred =
          scale_and_shift<A>(load_n(x + c, count), exact_scale, broadcast(base)) - mean;
      Vec<A> d = load_n(du + c, count) + centred * slope + constant;
      store_n(du + c, d, count);
      sum += d * u;
    });
    const A dot = reduce_add(sum) / static_cast<A>(sizes_.head_dim);
    for_each_vector<A>(sizes_.head_dim, [&](std::int64_t c, auto count) {
      Vec<A> u = load_n(x + c, count) * scale;
      Vec<A> v = (load_n(du + c, count) - u * dot) * scale;
      if (add) v += load_n(add + c, count);
      store_n(out + c, v, count);
    });
  }

  // Adds image by image, in order.
  void add_parameter_gradients() const {
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      add_channels(channel_sums_ + b * 2 * sizes_.channels, b, args_.dweight);
      add_channels(channel_sums_ + (b * 2 + 1) * sizes_.channels, b, args_.dbias);
    }
    add_lambda_gradients(&HeadSums::lambda_mean, args_.lambda_mean, args_.dlambda_mean);
    add_lambda_gradients(&HeadSums::lambda_var, args_.lambda_var, args_.dlambda_var);
  }
  void add_lambda_gradients(A HeadSums::*term, const void* lambda, void* total) const {
    if (!total) return;
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      const A l = static_cast<const A*>(lambda)[h];
      A sum = 0;
      for (std::int64_t b = 0; b < sizes_.batch; ++b) sum += head_sums_[b * sizes_.heads + h].*term;
      static_cast<A*>(total)[h] += args_.by_logits ? sum * l * (1 - l) : sum;
    }
  }
  void add_channels(const A* sums, std::int64_t b, void* total) const {
    if (!total) return;
    A* out = static_cast<A*>(total) + b * args_.parameter_stride;
    for_each_vector<A>(sizes_.channels, [&](std::int64_t c, auto count) {
      store_n(out + c, load_n(out + c, count) + load_n(sums + c, count), count);
    });
  }

  std::int64_t image_;   // elements between the starts of two images
  HeadSums* head_sums_;  // [B, H]
  A* channel_sums_;      // [B, 2, C]: sums over tokens of dy xhat and of dy
};

}  // namespace dtn::DTN_ISA
