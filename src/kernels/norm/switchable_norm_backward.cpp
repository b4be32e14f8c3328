// Switchable normalization, backward; see switchable_norm.h for the formulas. Both steps read x and
// dy once. Terms that depend only on the channel or the token are computed before.
#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/norm/switchable_norm.h"
#include "kernels/norm/switchable_norm_parts.h"

namespace dtn::DTN_ISA {
namespace {

// --- the sums -----------------------------------------------------------------------------------

// Sums per channel over a piece, an image or the batch, with centred = x - mu. They do not include
// the weight of the channel, which is the same in every term.
template <class A>
struct ChannelSums {
  A* mean;    // sum dy r
  A* var;     // sum dy centred r^3
  A* weight;  // sum dy centred r
  A* bias;    // sum dy
};
constexpr std::int64_t kChannelSums = 4;
template <class A>
ChannelSums<A> channel_sums(A* at, std::int64_t stride) {
  return {at, at + stride, at + 2 * stride, at + 3 * stride};
}

template <class T, int kRows>
void sum_rows(const SwitchableNormBackwardSums& args, const FoldedImage<AccumulatorOf<T>>& f,
              std::int64_t image, std::int64_t token, const ChannelSums<AccumulatorOf<T>>& sums) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.terms.channels, row = image * args.terms.tokens + token;
  const T* x = static_cast<const T*>(args.terms.x) + row * channels;
  const T* dy = static_cast<const T*>(args.dy) + row * channels;
  const A* weight = static_cast<const A*>(args.weight);
  const A *pivots = f.pivot, *shifts = f.shift, *vars = f.var;
  A *mean_sums = sums.mean, *var_sums = sums.var;
  A *weight_sums = sums.weight, *bias_sums = sums.bias;
  const TokenValues<A, kRows> token_shift(f.token_shift, token), token_var(f.token_var, token);
  Vec<A> mean_of_token[kRows] = {}, var_of_token[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> pivot = load(pivots + c), shift = load(shifts + c), var = load(vars + c);
    const Vec<A> w = load_n(weight + c, count);
    Vec<A> mean_sum = load(mean_sums + c), var_sum = load(var_sums + c);
    Vec<A> weight_sum = load(weight_sums + c), bias_sum = load(bias_sums + c);
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> g = load_n(dy + r * channels + c, count);
      const Vec<A> centred =
          (load_n(x + r * channels + c, count) - pivot) - (shift + token_shift[r]);
      const Vec<A> rstd = rsqrt(Vec<A>(var + token_var[r]));
      const Vec<A> scaled = g * rstd, dot = scaled * centred, cubed = dot * rstd * rstd;
      bias_sum += g;
      mean_sum += scaled;
      weight_sum += dot;
      var_sum += cubed;
      mean_of_token[r] += w * scaled;
      var_of_token[r] += w * cubed;
    }
    store(mean_sums + c, mean_sum);
    store(var_sums + c, var_sum);
    store(weight_sums + c, weight_sum);
    store(bias_sums + c, bias_sum);
  });
  for (int r = 0; r < kRows; ++r) {
    static_cast<A*>(args.token_dmean)[row + r] = -reduce_add(mean_of_token[r]);
    static_cast<A*>(args.token_dvar)[row + r] = A(-0.5) * reduce_add(var_of_token[r]);
  }
}

// Averages of the batch statistics over the channels. They are subtracted from the statistics
// before these are multiplied by gradients. The gradient of the softmax stays the same, but it is
// more accurate: the three kinds of statistics differ little compared with their size.
template <class A>
struct StatisticsBase {
  double mean = 0, var = 0;
  explicit StatisticsBase(const SwitchableTerms& terms) {
    with_batch_statistics<A>(terms, [&](const auto* means, const A* vars) {
      for (std::int64_t c = 0; c < terms.channels; ++c) mean += means[c], var += vars[c];
    });
    mean /= static_cast<double>(terms.channels);
    var /= static_cast<double>(terms.channels);
  }
};

// Sums of dmu mu and of dvar var over one kind of statistics.
struct InnerProducts {
  double mean = 0, var = 0;

  // Adds `count` adjacent means and variances.
  template <class A, class Mean>
  void add(const StatisticsBase<A>& base, std::int64_t count, const A* dmean, const A* dvar,
           const Mean* means, const A* vars) {
    for (std::int64_t i = 0; i < count; ++i) {
      mean += dmean[i] * (means[i] - base.mean);
      var += dvar[i] * (vars[i] - base.var);
    }
  }
  void operator+=(const InnerProducts& other) {
    mean += other.mean;
    var += other.var;
  }
};

// Computes channels [begin, end) of the images, and their inner products, from the sums of their
// pieces, [B, pieces, kChannelSums, stride]. The first piece of each image accumulates the others.
template <class A>
InnerProducts finish_images(const SwitchableNormBackwardSums& args, const SwitchableSizes& sizes,
                            const StatisticsBase<A>& base, A* pieces, std::int64_t begin,
                            std::int64_t end) {
  const A* weight = static_cast<const A*>(args.weight);
  InnerProducts products;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    A* first = pieces + b * sizes.pieces * kChannelSums * sizes.stride;
    for (std::int64_t k = 1; k < sizes.pieces; ++k) {
      for (std::int64_t kind = 0; kind < kChannelSums; ++kind) {
        A* to = first + kind * sizes.stride;
        const A* from = to + k * kChannelSums * sizes.stride;
        DTN_INDEPENDENT
        for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    }
    const ChannelSums<A> sums = channel_sums(first, sizes.stride);
    A* dmean = static_cast<A*>(args.image_dmean) + b * sizes.channels;
    A* dvar = static_cast<A*>(args.image_dvar) + b * sizes.channels;
    DTN_INDEPENDENT
    for (std::int64_t c = begin; c < end; ++c) {
      dmean[c] = -weight[c] * sums.mean[c];
      dvar[c] = A(-0.5) * weight[c] * sums.var[c];
    }
    const ImageStatistics<A> image(args.terms, b);
    products.add(base, end - begin, dmean + begin, dvar + begin, image.image_mean + begin,
                 image.image_var + begin);
  }
  return products;
}

// Computes the same channels of the batch.
template <class A>
InnerProducts finish_batch(const SwitchableNormBackwardSums& args, const SwitchableSizes& sizes,
                           const StatisticsBase<A>& base, const A* pieces, std::int64_t begin,
                           std::int64_t end) {
  const std::int64_t step = sizes.pieces * kChannelSums * sizes.stride;
  auto add_up = [&](const A* first, std::int64_t distance, void* to, bool onto) {
    if (!to) return;
    A* total = static_cast<A*>(to);
    for_each_vector<A>(end - begin, [&](std::int64_t i, auto count) {
      Vec<A> sum{};
      for (std::int64_t b = 0; b < sizes.batch; ++b) {
        sum += load_n(first + b * distance + begin + i, count);
      }
      if (onto) sum += load_n(total + begin + i, count);
      store_n(total + begin + i, sum, count);
    });
  };
  A *dmean = static_cast<A*>(args.batch_dmean), *dvar = static_cast<A*>(args.batch_dvar);
  add_up(static_cast<const A*>(args.image_dmean), sizes.channels, dmean, false);
  add_up(static_cast<const A*>(args.image_dvar), sizes.channels, dvar, false);
  add_up(pieces + 2 * sizes.stride, step, args.dweight, true);
  add_up(pieces + 3 * sizes.stride, step, args.dbias, true);
  InnerProducts products;
  with_batch_statistics<A>(args.terms, [&](const auto* mean, const A* var) {
    products.add(base, end - begin, dmean + begin, dvar + begin, mean + begin, var + begin);
  });
  return products;
}

//    dlogits[k] += w_k (g_k - sum_j w_j g_j)
template <class A>
void add_logit_gradients(const void* logits, const double (&g)[3], void* dlogits) {
  if (!dlogits) return;
  const SwitchableShares w = switchable_shares<A>(logits);
  const double share[3] = {w.in, w.ln, w.bn};
  const double mean = w.in * g[0] + w.ln * g[1] + w.bn * g[2];
  for (int k = 0; k < 3; ++k) {
    static_cast<A*>(dlogits)[k] += static_cast<A>(share[k] * (g[k] - mean));
  }
}

// Computes the sums of one piece, per token and per channel.
template <class T>
InnerProducts sum_piece(const SwitchableNormBackwardSums& args, const SwitchableSizes& sizes,
                        const StatisticsBase<AccumulatorOf<T>>& base,
                        const FoldedImage<AccumulatorOf<T>>& image, std::int64_t b,
                        std::int64_t piece, AccumulatorOf<T>* at) {
  using A = AccumulatorOf<T>;
  for (std::int64_t i = 0; i < kChannelSums * sizes.stride; ++i) at[i] = 0;
  const ChannelSums<A> sums = channel_sums(at, sizes.stride);
  const std::int64_t first = piece * sizes.piece_rows, rows = sizes.rows_of(b, piece);
  for_each_rows(rows, [&](std::int64_t r, auto count) {
    sum_rows<T, count>(args, image, b, first + r, sums);
  });
  const std::int64_t row = b * sizes.tokens + first;
  InnerProducts products;
  products.add(base, rows, static_cast<const A*>(args.token_dmean) + row,
               static_cast<const A*>(args.token_dvar) + row,
               static_cast<const double*>(args.terms.token_mean) + row,
               static_cast<const A*>(args.terms.token_var) + row);
  return products;
}

template <class T>
void sum_up(CpuQueue& queue, const SwitchableNormBackwardSums& args) {
  using A = AccumulatorOf<T>;
  const SwitchableSizes sizes(args.terms);
  const StatisticsBase<A> base(args.terms);
  Scratch::Scope scope(queue.scratch());
  const std::int64_t length = kChannelSums * sizes.stride, count = sizes.batch * sizes.pieces;
  constexpr std::int64_t kTogether = SwitchableSizes::kChannelsTogether;
  const std::int64_t ranges = (sizes.channels + kTogether - 1) / kTogether;
  A* pieces = scope.take<A>(count * length);
  InnerProducts* of_tokens = scope.take<InnerProducts>(count);
  InnerProducts* of_images = scope.take<InnerProducts>(ranges);
  InnerProducts* of_batch = scope.take<InnerProducts>(ranges);
  sizes.for_each_pieces([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    Scratch::Scope own(queue.scratch());
    const FoldedImage<A> image(args.terms, sizes, b, begin, end, own);
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t i = b * sizes.pieces + k;
      of_tokens[i] = sum_piece<T>(args, sizes, base, image, b, k, pieces + i * length);
    }
  });
  sizes.for_each_channels([&](std::int64_t begin, std::int64_t end) {
    const std::int64_t i = begin / kTogether;
    of_images[i] = finish_images(args, sizes, base, pieces, begin, end);
    of_batch[i] = finish_batch(args, sizes, base, pieces, begin, end);
  });

  InnerProducts in, ln, bn;
  for (std::int64_t i = 0; i < count; ++i) ln += of_tokens[i];
  for (std::int64_t i = 0; i < ranges; ++i) {
    in += of_images[i];
    bn += of_batch[i];
  }
  add_logit_gradients<A>(args.terms.mean_weight, {in.mean, ln.mean, bn.mean}, args.dmean_weight);
  add_logit_gradients<A>(args.terms.var_weight, {in.var, ln.var, bn.var}, args.dvar_weight);
}

// --- dx -----------------------------------------------------------------------------------------

// Terms of dx. With u = x - pivot,
//    dx = dy weight r + u slope[c] + offset[c] + (u + reach[c]) token_slope[t] + token_offset[t]
// where u + reach is x minus the mean of the image's first token.
template <class A>
struct FoldedGradient {
  A *slope, *offset, *reach;      // [stride]
  A *token_slope, *token_offset;  // [T], written for the tokens of the pieces

  // For pieces [begin, end) of image b.
  FoldedGradient(const SwitchableNormBackward& args, const SwitchableSizes& sizes, std::int64_t b,
                 std::int64_t begin, std::int64_t end, const A* pivot, Scratch::Scope& scope)
      : slope(scope.take<A>(3 * sizes.stride)),
        offset(slope + sizes.stride),
        reach(offset + sizes.stride),
        token_slope(scope.take<A>(2 * sizes.tokens)),
        token_offset(token_slope + sizes.tokens) {
    const SwitchableShares w = switchable_shares<A>(args.terms.mean_weight);
    const SwitchableShares v = switchable_shares<A>(args.terms.var_weight);
    const ImageStatistics<A> image(args.terms, b);
    const double base = image.token_mean[0];
    const auto channels = static_cast<double>(sizes.channels);
    fold_tokens(args, w.ln / channels, 2 * v.ln / channels, image.token_mean, b,
                begin * sizes.piece_rows, sizes.end_of(b, end));
    const double tokens = static_cast<double>(sizes.tokens_of(b));
    const double mean_share = w.in / tokens, var_share = 2 * v.in / tokens;
    const A* dmean = static_cast<const A*>(args.image_dmean) + b * sizes.channels;
    const A* dvar = static_cast<const A*>(args.image_dvar) + b * sizes.channels;
    DTN_INDEPENDENT
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      const double by = var_share * dvar[c];
      slope[c] = static_cast<A>(by);
      offset[c] = static_cast<A>(mean_share * dmean[c] - by * (image.image_mean[c] - pivot[c]));
      reach[c] = static_cast<A>(pivot[c] - base);
    }
    if (args.terms.batch_mean) {
      const double positions = static_cast<double>(args.positions);
      add_batch(args, w.bn / positions, 2 * v.bn / positions, pivot);
    }
  }

 private:
  void fold_tokens(const SwitchableNormBackward& args, double mean_share, double var_share,
                   const double* mean, std::int64_t b, std::int64_t first, std::int64_t last) {
    const A* dmean = static_cast<const A*>(args.token_dmean) + b * args.terms.tokens;
    const A* dvar = static_cast<const A*>(args.token_dvar) + b * args.terms.tokens;
    DTN_INDEPENDENT
    for (std::int64_t t = first; t < last; ++t) {
      const double by = var_share * dvar[t];
      token_slope[t] = static_cast<A>(by);
      token_offset[t] = static_cast<A>(mean_share * dmean[t] - by * (mean[t] - mean[0]));
    }
  }
  void add_batch(const SwitchableNormBackward& args, double mean_share, double var_share,
                 const A* pivot) {
    const double* mean = static_cast<const double*>(args.terms.batch_mean);
    const A* dmean = static_cast<const A*>(args.batch_dmean);
    const A* dvar = static_cast<const A*>(args.batch_dvar);
    DTN_INDEPENDENT
    for (std::int64_t c = 0; c < args.terms.channels; ++c) {
      const double by = var_share * dvar[c];
      slope[c] += static_cast<A>(by);
      offset[c] += static_cast<A>(mean_share * dmean[c] - by * (mean[c] - pivot[c]));
    }
  }
};

template <class T, int kRows>
void backward_rows(const SwitchableNormBackward& args, const FoldedImage<AccumulatorOf<T>>& f,
                   const FoldedGradient<AccumulatorOf<T>>& d, std::int64_t image,
                   std::int64_t token) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.terms.channels;
  const std::int64_t first = (image * args.terms.tokens + token) * channels;
  const T* x = static_cast<const T*>(args.terms.x) + first;
  const T* dy = static_cast<const T*>(args.dy) + first;
  const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + first : nullptr;
  T* dx = static_cast<T*>(args.dx) + first;
  const A* weight = static_cast<const A*>(args.weight);
  const A *pivots = f.pivot, *vars = f.var;
  const A *slopes = d.slope, *offsets = d.offset, *reaches = d.reach;
  const TokenValues<A, kRows> token_var(f.token_var, token);
  const TokenValues<A, kRows> token_slope(d.token_slope, token),
      token_offset(d.token_offset, token);
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    const Vec<A> pivot = load(pivots + c), var = load(vars + c);
    const Vec<A> w = load_n(weight + c, count);
    const Vec<A> slope = load(slopes + c), offset = load(offsets + c), reach = load(reaches + c);
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> u = load_n(x + r * channels + c, count) - pivot;
      const Vec<A> rstd = rsqrt(Vec<A>(var + token_var[r]));
      Vec<A> sum = u * slope + (offset + token_offset[r]);
      sum += (u + reach) * token_slope[r];
      sum += load_n(dy + r * channels + c, count) * w * rstd;
      if (add) sum += load_n(add + r * channels + c, count);
      store_n(dx + r * channels + c, sum, count);
    }
  });
}

template <class T>
void backward(CpuQueue& queue, const SwitchableNormBackward& args) {
  using A = AccumulatorOf<T>;
  const SwitchableSizes sizes(args.terms);
  sizes.for_each_pieces([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    Scratch::Scope scope(queue.scratch());
    const FoldedImage<A> image(args.terms, sizes, b, begin, end, scope);
    const FoldedGradient<A> gradient(args, sizes, b, begin, end, image.pivot, scope);
    for (std::int64_t k = begin; k < end; ++k) {
      for_each_rows(sizes.rows_of(b, k), [&](std::int64_t r, auto count) {
        backward_rows<T, count>(args, image, gradient, b, k * sizes.piece_rows + r);
      });
    }
    for_pads(sizes, b, end, [&](std::int64_t first, std::int64_t count) {
      const std::int64_t at = (b * sizes.tokens + first) * sizes.channels;
      T* dx = static_cast<T*>(args.dx) + at;
      const T* add = args.dx_add ? static_cast<const T*>(args.dx_add) + at : nullptr;
      for (std::int64_t i = 0; i < count * sizes.channels; ++i) {
        dx[i] = add ? add[i] : static_cast<T>(0.0f);
      }
    });
  });
}

}  // namespace

void run(CpuQueue& queue, const SwitchableNormBackwardSums& args) {
  for_dtype("SwitchableNormBackwardSums", args.terms.dtype, [&](auto tag) {
    if (!args.terms.is_empty()) sum_up<decltype(tag)>(queue, args);
  });
}

void run(CpuQueue& queue, const SwitchableNormBackward& args) {
  for_dtype("SwitchableNormBackward", args.terms.dtype, [&](auto tag) {
    if (!args.terms.is_empty()) backward<decltype(tag)>(queue, args);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::SwitchableNormBackwardSums)
DTN_DISPATCH(dtn::SwitchableNormBackward)
