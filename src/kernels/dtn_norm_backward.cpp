// Backward pass of Dynamic Token Normalization; see dtn_norm.h for the formulas. First, head by
// head, everything but the two terms of dx that sum over all channels of a token: those sums are
// made on the way, and the second step, over whole images, adds the terms.
#include "kernels/dtn_norm.h"
#include "kernels/dtn_norm_parts.h"
#include "kernels/for_dtype.h"
#include "kernels/isa.h"

namespace dtn::DTN_ISA {
namespace {

// Sums over one head of one image.
template <class A>
struct HeadSums {
  A lambda_mean, lambda_var, pos[3];  // pos: columns x, y, d
};

template <class T, DtnVariant variant>
class Backward {
 public:
  using A = AccumulatorOf<T>;
  static constexpr bool kOfficial = variant == DtnVariant::kOfficial;
  static constexpr int lanes = kLanes<A>;
  // Whether dx itself can hold what the first step leaves, dx_add included; else it is scratch.
  static constexpr bool kInPlace = !kOfficial && std::is_same_v<T, A>;

  explicit Backward(const DtnNormBackward& args)
      : args_(args), sizes_(args), image_(sizes_.tokens * sizes_.channels) {}

  void run(CpuQueue& queue) {
    Scratch::Scope scope(queue.scratch());
    HeadPositions<A> positions(sizes_, variant, args_.pos_weight, args_.dpos_weight, scope);
    head_sums_ = scope.take<HeadSums<A>>(sizes_.batch * sizes_.heads);
    channel_sums_ = scope.take<A>(sizes_.batch * 2 * sizes_.channels);
    if (positions.wave() == sizes_.heads && sizes_.image_per_task()) {
      positions.build(0);
      parallel_for(sizes_.batch, [&](std::int64_t b) {
        Scratch::Scope inner(queue.scratch());
        A* dx = kInPlace ? output_of(b) : args_.dx ? inner.take<A>(image_) : nullptr;
        A* sums = inner.take<A>(token_sums());
        for (std::int64_t h = 0; h < sizes_.heads; ++h) head(queue, positions, b, h, dx, sums);
        if (dx) finish(queue, b, 0, sizes_.tokens, dx, sums);
      });
    } else {
      run_by_heads(queue, positions, scope);
    }
    add_parameter_gradients();
  }

 private:
  // [2, H, padded tokens]: sums over a head's channels of l_mu dmu and of l_va dvar.
  std::int64_t token_sums() const { return 2 * sizes_.heads * sizes_.padded_tokens; }

  void run_by_heads(CpuQueue& queue, HeadPositions<A>& positions, Scratch::Scope& scope) {
    A* dx = kInPlace ? output_of(0) : nullptr;
    if (!kInPlace && args_.dx) dx = scope.take<A>(sizes_.batch * image_);
    A* sums = scope.take<A>(sizes_.batch * token_sums());
    auto dx_of = [&](std::int64_t b) { return dx ? dx + b * image_ : nullptr; };
    for (std::int64_t begin = 0; begin < sizes_.heads; begin += positions.wave()) {
      std::int64_t count = sizes_.heads - begin;
      if (count > positions.wave()) count = positions.wave();
      positions.build(begin);
      parallel_for(sizes_.batch * count, [&](std::int64_t i) {
        const std::int64_t b = i / count;
        head(queue, positions, b, begin + i % count, dx_of(b), sums + b * token_sums());
      });
    }
    if (!dx) return;
    constexpr std::int64_t kTokens = 32;
    const std::int64_t chunks = (sizes_.tokens + kTokens - 1) / kTokens;
    parallel_for(sizes_.batch * chunks, [&](std::int64_t i) {
      const std::int64_t b = i / chunks, t = i % chunks * kTokens;
      const std::int64_t end = t + kTokens < sizes_.tokens ? t + kTokens : sizes_.tokens;
      finish(queue, b, t, end, dx_of(b), sums + b * token_sums());
    });
  }

  // Planes of one head, one vector per token; dm is made row by row from a row's moments m.
  // direct: dxhat r, what reaches x without the statistics.
  struct Planes {
    A *x, *z1, *z2, *dm1, *dm2, *direct;
    A *m1, *m2;  // of one row of the grid
    A* mixed;    // [T], see mix_variances
  };
  // Lane sums to be, over the groups of a head; those of the lambdas lack a factor -1 and -1/2.
  struct Sums {
    Vec<A> lambda_mean{}, lambda_var{};
    PositionSums<A> rows, columns;
  };
  // Sums over the tokens, for one group.
  struct ChannelSums {
    Vec<A> weight{}, bias{};
  };

  // The final dx of image b as the place of its unfinished one.
  A* output_of(std::int64_t b) const {
    return args_.dx ? static_cast<A*>(args_.dx) + b * image_ : nullptr;
  }

  // The unfinished dx ([T, C]) and token sums of one head, and its parameter gradients.
  void head(CpuQueue& queue, const HeadPositions<A>& positions, std::int64_t b, std::int64_t h,
            A* dx, A* token_sums) const {
    Scratch::Scope scope(queue.scratch());
    const std::int64_t size = sizes_.tokens * lanes, row_size = sizes_.grid_w * lanes;
    const std::int64_t padded = sizes_.padded_tokens * lanes;
    Planes p{scope.take<A>(size),     scope.take<A>(size),     scope.take<A>(size),
             scope.take<A>(size),     scope.take<A>(size),     scope.take<A>(padded),
             scope.take<A>(row_size), scope.take<A>(row_size), scope.take<A>(sizes_.tokens)};
    mix_variances(sizes_, static_cast<const A*>(args_.token_var) + b * sizes_.tokens,
                  static_cast<const A*>(args_.lambda_var)[h], args_.eps, p.mixed);
    A* by_mean = token_sums + h * sizes_.padded_tokens;
    A* by_var = by_mean + sizes_.heads * sizes_.padded_tokens;
    for (std::int64_t t = 0; t < sizes_.padded_tokens; ++t) by_mean[t] = by_var[t] = 0;
    TokenSums token(p.direct, -static_cast<const A*>(args_.lambda_mean)[h],
                    A(-0.5) * static_cast<const A*>(args_.lambda_var)[h], by_mean, by_var);
    const PositionMatrices<A> rows = positions.along_rows(h), columns = positions.down_columns(h);
    const A base = mean_base<variant>(sizes_, image_of(b));
    Sums sums;
    for_each_group<A>(sizes_, [&](std::int64_t offset, auto count) {
      const std::int64_t channel = h * sizes_.head_dim + offset;
      const Vec<A> pivot =
          load_n(static_cast<const A*>(args_.pivot) + b * sizes_.channels + channel, count);
      gather(sizes_, image_of(b) + channel, count, head_scale(b, h), pivot, p.x);
      column_moments(sizes_, columns, p.x, p.z1, p.z2);
      ChannelSums channels;
      for (std::int64_t row = 0; row < sizes_.grid_h; ++row) {
        const std::int64_t next = channel + lanes, first = row * sizes_.grid_w;
        prefetch_group(sizes_, image_of(b) + next, first, sizes_.grid_w);
        prefetch_group(sizes_, output_gradient(b) + next, first, sizes_.grid_w);
        if (kInPlace && dx) prefetch_group(sizes_, dx + next, first, sizes_.grid_w);
        if (kInPlace && args_.dx_add) {
          prefetch_group(sizes_, residual_gradient(b) + next, first, sizes_.grid_w);
        }
        row_moments(sizes_, rows, row, p.z1, p.z2, p.m1, p.m2);
        row_gradients(b, h, channel, count, base - pivot, row, p, channels, sums, token);
      }
      A* out = channel_sums_ + b * 2 * sizes_.channels + channel;
      store_n(out, channels.weight, count);
      store_n(out + sizes_.channels, channels.bias, count);
      if (args_.dpos_weight) {
        position_sums<A, Second::kPlane>(sizes_.rows(), p.dm1, p.dm2, p.z1, p.z2, rows.by_offset,
                                         rows.by_square, sums.rows);
      }
      pass<A, Second::kPlane>(sizes_.rows(), rows.apply_transposed, p.dm1, p.dm2, p.z1, p.z2);
      if (args_.dpos_weight) {
        position_sums<A, Second::kSquare>(sizes_.columns(), p.z1, p.z2, p.x, nullptr,
                                          columns.by_offset, columns.by_square, sums.columns);
      }
      if (dx) input_gradient(b, channel, columns, count, p, dx + channel);
    });
    head_sums_[b * sizes_.heads + h] = {
        -reduce_add(sums.lambda_mean),
        A(-0.5) * reduce_add(sums.lambda_var),
        {reduce_add(sums.rows.offset), reduce_add(sums.columns.offset),
         reduce_add(sums.rows.square + sums.columns.square)}};
  }

  const T* image_of(std::int64_t b) const { return static_cast<const T*>(args_.x) + b * image_; }

  const T* residual_gradient(std::int64_t b) const {
    return args_.dx_add ? static_cast<const T*>(args_.dx_add) + b * image_ : nullptr;
  }
  const T* output_gradient(std::int64_t b) const {
    return static_cast<const T*>(args_.dy) + b * image_;
  }

  const double* head_scale(std::int64_t b, std::int64_t h) const {
    if constexpr (!kOfficial) return nullptr;
    return static_cast<const double*>(args_.head_rstd) + (b * sizes_.heads + h) * sizes_.tokens;
  }

  // Sums over the channels of each token, in the order of the tokens: of direct, which is a plane,
  // and of a second value that is collected here. Sums of a vector of tokens are made together.
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

  // From the moments of one row of the grid: their gradients dm1, dm2, and all other gradients that
  // need no pass. offset: from a token mean as it is kept to one relative to the pivots.
  template <class N>
  void row_gradients(std::int64_t b, std::int64_t h, std::int64_t channel, N count, Vec<A> offset,
                     std::int64_t row, const Planes& p, ChannelSums& channel_sums, Sums& sums,
                     TokenSums& token_sums) const {
    const A mean_share = static_cast<const A*>(args_.lambda_mean)[h];
    const A var_share = static_cast<const A*>(args_.lambda_var)[h];
    const A dm2_share = A(-0.5) * (1 - var_share);
    const Vec<A> weight = load_n(static_cast<const A*>(args_.weight) + channel, count);
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens;
    const A* var = static_cast<const A*>(args_.token_var) + b * sizes_.tokens;
    const std::int64_t first = row * sizes_.grid_w, end = first + sizes_.grid_w;
    const std::int64_t channels = sizes_.channels;
    const T* dy = output_gradient(b) + first * channels + channel;
    const A *m1 = p.m1, *m2 = p.m2;
    ChannelSums add;  // of this row: short sums, added up once, lose less to rounding
    Vec<A> dmean_share{}, dvar_share{};
    for (std::int64_t t = first; t < end; ++t, dy += channels, m1 += lanes, m2 += lanes) {
      const std::int64_t at = t * lanes;
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
    if (end == sizes_.tokens) token_sums.finish(end);
    channel_sums.weight += add.weight;
    channel_sums.bias += add.bias;
    sums.lambda_mean += dmean_share;
    sums.lambda_var += dvar_share;
  }

  // dxhat r + Py^T dz1 + 2 x Py^T dz2; the gradients of z are in z1, z2. The pivot's part of x
  // drops out because the moments' gradients were taken for the shifted x.
  template <class N>
  void input_gradient(std::int64_t b, std::int64_t channel, const PositionMatrices<A>& columns,
                      N count, const Planes& p, A* dx) const {
    pass<A, Second::kPlane>(sizes_.columns(), columns.apply_transposed, p.z1, p.z2, p.dm1, p.dm2);
    const std::int64_t tokens = sizes_.tokens, channels = sizes_.channels;
    const T* add = kInPlace ? residual_gradient(b) : nullptr;
    if (add) add += channel;
    for (std::int64_t t = 0; t < tokens; ++t, dx += channels) {
      const std::int64_t at = t * lanes;
      Vec<A> d = load(p.direct + at) + load(p.dm1 + at) + 2 * load(p.x + at) * load(p.dm2 + at);
      if (add) d += load_n(add + t * channels, count);
      store_n(dx, d, count);
    }
  }

  // Adds the terms through mu_ln and var_ln, then (official) goes back through the division by the
  // head's root mean square, and writes tokens [begin, end) of dx.
  void finish(CpuQueue& queue, std::int64_t b, std::int64_t begin, std::int64_t end, A* dx,
              const A* token_sums) const {
    Scratch::Scope scope(queue.scratch());
    A* constant = scope.take<A>(sizes_.padded_tokens);
    A* slope = scope.take<A>(sizes_.padded_tokens);
    add_heads(token_sums, begin, end, 1 / static_cast<A>(sizes_.channels), constant);
    add_heads(token_sums + sizes_.heads * sizes_.padded_tokens, begin, end,
              2 / static_cast<A>(kOfficial ? sizes_.channels - 1 : sizes_.channels), slope);
    const A base = mean_base<variant>(sizes_, image_of(b));
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

  // out[t] = factor * sum over heads of sums[h, t].
  void add_heads(const A* sums, std::int64_t begin, std::int64_t end, A factor, A* out) const {
    for (std::int64_t t = begin; t < end; ++t) {
      A sum = 0;
      for (std::int64_t h = 0; h < sizes_.heads; ++h) sum += sums[h * sizes_.padded_tokens + t];
      out[t] = sum * factor;
    }
  }

  // One head of one token: with u = x s, du -> dx = s (du - u mean(du u)).
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

  // Image after image, in order.
  void add_parameter_gradients() const {
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      add_channels(channel_sums_ + b * 2 * sizes_.channels, args_.dweight);
      add_channels(channel_sums_ + (b * 2 + 1) * sizes_.channels, args_.dbias);
      for (std::int64_t h = 0; h < sizes_.heads; ++h) {
        const HeadSums<A>& sums = head_sums_[b * sizes_.heads + h];
        if (args_.dlambda_mean) static_cast<A*>(args_.dlambda_mean)[h] += sums.lambda_mean;
        if (args_.dlambda_var) static_cast<A*>(args_.dlambda_var)[h] += sums.lambda_var;
        if (!args_.dpos_weight) continue;
        for (int k = 0; k < 3; ++k) static_cast<A*>(args_.dpos_weight)[3 * h + k] += sums.pos[k];
      }
    }
  }
  void add_channels(const A* sums, void* total) const {
    if (!total) return;
    A* out = static_cast<A*>(total);
    for_each_vector<A>(sizes_.channels, [&](std::int64_t c, auto count) {
      store_n(out + c, load_n(out + c, count) + load_n(sums + c, count), count);
    });
  }

  const DtnNormBackward& args_;
  DtnSizes sizes_;
  std::int64_t image_;                // elements of an image
  HeadSums<A>* head_sums_ = nullptr;  // [B, H]
  A* channel_sums_ = nullptr;         // [B, 2, C]: sums over tokens of dy xhat and of dy
};

}  // namespace

void run(CpuQueue& queue, const DtnNormBackward& args) {
  for_dtype("DtnNormBackward", args.dtype, [&](auto tag) {
    using T = decltype(tag);
    if (args.variant == DtnVariant::kPaper) {
      Backward<T, DtnVariant::kPaper>(args).run(queue);
    } else {
      Backward<T, DtnVariant::kOfficial>(args).run(queue);
    }
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::DtnNormBackward)
