// Shared by the forward passes of Dynamic Token Normalization, for all ways to compute the moments
// across tokens. Token statistics and pivots come first, in one pass over an image. Then the output
// is computed from the moments, one vector of channels and one row of the grid at a time. See
// dtn_norm.h for the formulas.
#pragma once

#include <cmath>

#include "kernels/dtn/dtn_norm_parts.h"

namespace dtn::DTN_ISA {

template <class T, DtnVariant variant>
class DtnForwardParts : protected DtnParts<T, variant, DtnNormForward> {
 protected:
  using Parts = DtnParts<T, variant, DtnNormForward>;
  using Parts::args_, Parts::sizes_, Parts::lanes, Parts::kOfficial, Parts::input;
  using typename Parts::A;

  DtnForwardParts(const DtnNormForward& args, Scratch::Scope& scope)
      : Parts(args), chunks_((sizes_.tokens + kChunk - 1) / kChunk) {
    column_sums_ = scope.take<A>(sizes_.batch * chunks_ * sizes_.channels);
  }

  // Computes the statistics of all tokens of `images` images.
  void token_statistics(std::int64_t first, std::int64_t images) {
    parallel_for(images * chunks_,
                 [&](std::int64_t i) { chunk_statistics(first + i / chunks_, i % chunks_); });
  }

  T* output(std::int64_t b) const { return static_cast<T*>(args_.y) + b * sizes_.image; }

  // Computes the channel means of image b from the partial sums of its chunks.
  template <class N>
  Vec<A> make_pivot(std::int64_t b, std::int64_t channel, N count, A base) const {
    const A* sums = column_sums_ + b * chunks_ * sizes_.channels + channel;
    Vec<A> sum{};
    for (std::int64_t k = 0; k < chunks_; ++k) sum += load_n(sums + k * sizes_.channels, count);
    Vec<A> pivot = sum / static_cast<A>(sizes_.tokens);
    if constexpr (kOfficial) pivot = keep_n(pivot + base, count);  // the sums are relative to base
    store_n(static_cast<A*>(args_.pivot) + b * sizes_.channels + channel, pivot, count);
    return pivot;
  }

  // Writes row `row` of the grid. `mixed` belongs to the image.
  template <class N>
  void write_row(std::int64_t b, std::int64_t h, std::int64_t channel, N count, Vec<A> offset,
                 std::int64_t row, const A* x, const A* m1, const A* m2, const A* mixed) const {
    const std::int64_t first = row * sizes_.grid_w;
    write_tokens(b, h, channel, count, offset, first, sizes_.grid_w, x, m1, m2, mixed + first);
  }

  // Writes tokens [first, first + tokens); x, m1, m2 and mixed begin at the first of them. offset
  // makes a stored token mean relative to the pivots.
  template <class N>
  void write_tokens(std::int64_t b, std::int64_t h, std::int64_t channel, N count, Vec<A> offset,
                    std::int64_t first, std::int64_t tokens, const A* x, const A* m1, const A* m2,
                    const A* mixed) const {
    const A mean_share = static_cast<const A*>(args_.lambda_mean)[h];
    const A var_share = static_cast<const A*>(args_.lambda_var)[h];
    const Vec<A> weight = load_gains<A>(args_, b, channel, count);
    const Vec<A> bias = load_shifts<A>(args_, b, channel, count);
    const A* mean = static_cast<const A*>(args_.token_mean) + b * sizes_.tokens + first;
    const std::int64_t channels = sizes_.channels;
    T* y = output(b) + first * channels + channel;
    for (std::int64_t t = 0; t < tokens; ++t, y += channels) {
      Vec<A> m = load(m1 + t * lanes), v = load(m2 + t * lanes) - m * m;
      if constexpr (!kOfficial) v = max(Vec<A>{}, v);
      Vec<A> mu = mean_share * (broadcast(mean[t]) + offset) + (1 - mean_share) * m;
      Vec<A> total = (1 - var_share) * v + broadcast(mixed[t]);
      Vec<A> out = (load(x + t * lanes) - mu) * rsqrt(total) * weight + bias;
      store_n(y, out, count);
    }
  }

 private:
  static constexpr std::int64_t kChunk = 64;  // tokens per partial sum for the pivots
  static constexpr int kTogether = 4;         // tokens at a time, for fewer updates of column sums

  void chunk_statistics(std::int64_t b, std::int64_t chunk) {
    A* columns = column_sums_ + (b * chunks_ + chunk) * sizes_.channels;
    for (std::int64_t c = 0; c < sizes_.channels; ++c) columns[c] = 0;
    const A base = mean_base<variant>(sizes_, input(b));
    std::int64_t t = chunk * kChunk;
    const std::int64_t end = t + kChunk < sizes_.tokens ? t + kChunk : sizes_.tokens;
    for (; t + kTogether <= end; t += kTogether) statistics_of<kTogether>(b, t, base, columns);
    for (; t < end; ++t) statistics_of<1>(b, t, base, columns);
  }

  // Calls f(c, count, segment) for the vectors of a token. Each segment has its own scale.
  template <class F>
  void for_each_of_token(F&& f) const {
    const std::int64_t segments = kOfficial ? sizes_.heads : 1;
    const std::int64_t length = sizes_.channels / segments;
    for (std::int64_t s = 0; s < segments; ++s) {
      for_each_vector<A>(length, [&](std::int64_t c, auto count) { f(s * length + c, count, s); });
    }
  }

  // Computes the mean, in two steps as in LayerNorm, and the variance of kTokens tokens from t on.
  // Adds the tokens to the sums by channel in `columns`.
  template <int kTokens>
  void statistics_of(std::int64_t b, std::int64_t t, A base, A* columns) {
    const std::int64_t channels = sizes_.channels;
    const T* x = input(b) + t * channels;
    double* scale = nullptr;  // [H, T] from token t on
    if constexpr (kOfficial) {
      scale = static_cast<double*>(args_.head_rstd) + b * sizes_.heads * sizes_.tokens + t;
      for (int r = 0; r < kTokens; ++r) head_scales(x + r * channels, scale + r);
    }
    auto value = [&](int r, std::int64_t c, auto count, [[maybe_unused]] std::int64_t segment) {
      Vec<A> v = load_n(x + r * channels + c, count);
      if constexpr (kOfficial) {
        v = keep_n(scale_and_shift<A>(v, scale[segment * sizes_.tokens + r], broadcast(base)),
                   count);
      }
      return v;
    };
    Vec<A> sum[kTokens] = {};
    for_each_of_token([&](std::int64_t c, auto count, std::int64_t segment) {
      Vec<A> column = load_n(columns + c, count);
      for (int r = 0; r < kTokens; ++r) {
        Vec<A> v = value(r, c, count, segment);
        sum[r] += v;
        column += v;
      }
      store_n(columns + c, column, count);
    });
    A rough[kTokens];
    for (int r = 0; r < kTokens; ++r) rough[r] = reduce_add(sum[r]) / static_cast<A>(channels);
    Vec<A> rest[kTokens] = {}, squares[kTokens] = {};
    for_each_of_token([&](std::int64_t c, auto count, std::int64_t segment) {
      for (int r = 0; r < kTokens; ++r) {
        Vec<A> d = keep_n(value(r, c, count, segment) - rough[r], count);
        rest[r] += d;
        squares[r] += d * d;
      }
    });
    A* mean = static_cast<A*>(args_.token_mean) + b * sizes_.tokens + t;
    A* var = static_cast<A*>(args_.token_var) + b * sizes_.tokens + t;
    for (int r = 0; r < kTokens; ++r) {
      const A delta = reduce_add(rest[r]) / static_cast<A>(channels);
      const A spread = reduce_add(squares[r]) - static_cast<A>(channels) * delta * delta;
      mean[r] = (kOfficial ? rough[r] : rough[r] - base) + delta;
      var[r] = spread / static_cast<A>(kOfficial ? channels - 1 : channels);
    }
  }

  // scale[h T] = 1 / sqrt(mean over head h of x^2 + eps) for one token.
  void head_scales(const T* x, double* scale) const {
    for (std::int64_t h = 0; h < sizes_.heads; ++h) {
      using Wide = typename WideType<A>::type;
      Wide squares{};
      for_each_vector<A>(sizes_.head_dim, [&](std::int64_t c, auto count) {
        const Vec<A> v = load_n(x + h * sizes_.head_dim + c, count);
        const Wide wide = __builtin_convertvector(v, Wide);
        squares += wide * wide;
      });
      double sum = 0;
      for (int i = 0; i < kLanes<A>; ++i) sum += squares[i];
      scale[h * sizes_.tokens] =
          1 / std::sqrt(sum / static_cast<double>(sizes_.head_dim) + args_.eps);
    }
  }

  std::int64_t chunks_;
  A* column_sums_;  // [B, chunks, C]
};

}  // namespace dtn::DTN_ISA
