// Switchable normalization, forward; see switchable_norm.h for the formulas.
//
// The statistics read x from memory once, four rows at a time, which stay in the first-level cache.
// One pass over the four rows computes a rough mean of each row. A second pass computes the mean
// and the squares of the differences from it. The second pass also computes the mean of the four
// values of each channel, and the squares around it. These moments are combined with those of the
// rows before (Chan, Golub and LeVeque, 1979), and so are the pieces of an image and the images of
// the batch. So no variance is a difference of large numbers. The second step reads x again, with
// five values per channel and two per token.
#include "kernels/norm/switchable_norm.h"

#include "kernels/cpu/for_dtype.h"
#include "kernels/cpu/isa.h"
#include "kernels/norm/switchable_norm_parts.h"

namespace dtn::DTN_ISA {
namespace {

// Moments of each channel: the mean, relative to a pivot, and the sum of squares around the mean.
template <class A>
struct ChannelMoments {
  A *mean, *squares;  // [C]
};

// Coefficients that combine the moments of `count` values with those of `more` values. If the means
// differ by d, the mean changes by share d and the squares grow by another weight d^2.
template <class A>
struct Combined {
  A share, weight;
  Combined(std::int64_t count, std::int64_t more)
      : share(static_cast<A>(more) / static_cast<A>(count + more)),
        weight(static_cast<A>(count) * share) {}
};

// Computes the statistics of kRows tokens from `row` on, counted over all images. Adds their
// channels to `moments`, which cover `before` tokens.
template <class T, int kRows>
void measure_rows(const SwitchableTerms& args, std::int64_t row, const T* pivot,
                  std::int64_t before, const ChannelMoments<AccumulatorOf<T>>& moments) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.channels;
  const T* x = static_cast<const T*>(args.x) + row * channels;
  Vec<A> sum[kRows] = {}, rest[kRows] = {}, squares[kRows] = {};
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    for (int r = 0; r < kRows; ++r) sum[r] += load_n(x + r * channels + c, count);
  });
  A rough[kRows];
  for (int r = 0; r < kRows; ++r) rough[r] = reduce_add(sum[r]) / static_cast<A>(channels);
  const Combined<A> with(before, kRows);
  for_each_vector<A>(channels, [&](std::int64_t c, auto count) {
    const Vec<A> base = load_n(pivot + c, count);
    Vec<A> v[kRows], total{}, around{};
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> value = load_n(x + r * channels + c, count);
      const Vec<A> d = keep_n(value - rough[r], count);
      rest[r] += d;
      squares[r] += d * d;
      v[r] = value - base;
      total += v[r];
    }
    const Vec<A> mean = total * (A(1) / kRows);
    for (int r = 0; r < kRows; ++r) around += (v[r] - mean) * (v[r] - mean);
    const Vec<A> old = load_n(moments.mean + c, count), apart = mean - old;
    store_n(moments.mean + c, old + apart * with.share, count);
    store_n(moments.squares + c,
            load_n(moments.squares + c, count) + (around + apart * apart * with.weight), count);
  });
  for (int r = 0; r < kRows; ++r) {
    const A delta = reduce_add(rest[r]) / static_cast<A>(channels);
    static_cast<double*>(args.token_mean)[row + r] = static_cast<double>(rough[r]) + delta;
    static_cast<A*>(args.token_var)[row + r] =
        reduce_add(squares[r]) / static_cast<A>(channels) - delta * delta;
  }
}

// Computes channels [begin, end) of the images from the moments of their pieces,
// [B, pieces, 2, stride]. The first piece of each image accumulates the others.
template <class T>
void finish_images(const SwitchableTerms& args, const SwitchableSizes& sizes,
                   AccumulatorOf<T>* pieces, std::int64_t begin, std::int64_t end) {
  using A = AccumulatorOf<T>;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    const A inverse = A(1) / static_cast<A>(sizes.tokens_of(b));
    A* moments = pieces + b * sizes.pieces * 2 * sizes.stride;
    for (std::int64_t k = 1; k < sizes.pieces; ++k) {
      const Combined<A> with(k * sizes.piece_rows, sizes.rows_of(b, k));
      const A* next = moments + 2 * k * sizes.stride;
      DTN_INDEPENDENT
      for (std::int64_t c = begin; c < end; ++c) {
        const A apart = next[c] - moments[c];
        moments[c] += apart * with.share;
        moments[sizes.stride + c] += next[sizes.stride + c] + apart * apart * with.weight;
      }
    }
    const T* pivot = static_cast<const T*>(args.x) + b * sizes.tokens * sizes.channels;
    double* mean = static_cast<double*>(args.image_mean) + b * sizes.channels;
    A* var = static_cast<A*>(args.image_var) + b * sizes.channels;
    DTN_INDEPENDENT
    for (std::int64_t c = begin; c < end; ++c) {
      mean[c] = static_cast<double>(static_cast<A>(pivot[c])) + moments[c];
      var[c] = moments[sizes.stride + c] * inverse;
    }
  }
}

// Computes the same channels of the batch, with each image weighted by its number of tokens.
template <class A>
void finish_batch(const SwitchableTerms& args, std::int64_t begin, std::int64_t end) {
  double mean[SwitchableSizes::kChannelsTogether] = {};
  double var[SwitchableSizes::kChannelsTogether] = {};
  const std::int64_t n = end - begin;
  const double* image_mean = static_cast<const double*>(args.image_mean) + begin;
  const A* image_var = static_cast<const A*>(args.image_var) + begin;
  const auto count = [&](std::int64_t b) {
    return args.lengths ? static_cast<double>(args.lengths[b]) : 1.0;
  };
  const auto all = static_cast<double>(args.lengths ? args.rows() : args.batch);
  for (std::int64_t b = 0; b < args.batch; ++b) {
    const double of_image = count(b);
    for (std::int64_t c = 0; c < n; ++c) mean[c] += of_image * image_mean[b * args.channels + c];
  }
  for (std::int64_t c = 0; c < n; ++c) mean[c] /= all;
  for (std::int64_t b = 0; b < args.batch; ++b) {
    const double of_image = count(b);
    for (std::int64_t c = 0; c < n; ++c) {
      const double apart = image_mean[b * args.channels + c] - mean[c];
      var[c] += of_image * (image_var[b * args.channels + c] + apart * apart);
    }
  }
  for (std::int64_t c = 0; c < n; ++c) {
    static_cast<double*>(args.batch_mean)[begin + c] = mean[c];
    static_cast<A*>(args.batch_var)[begin + c] = static_cast<A>(var[c] / all);
  }
}

template <class T>
void measure(CpuQueue& queue, const SwitchableTerms& args) {
  using A = AccumulatorOf<T>;
  const SwitchableSizes sizes(args);
  Scratch::Scope scope(queue.scratch());
  A* pieces = scope.take<A>(sizes.batch * sizes.pieces * 2 * sizes.stride);
  sizes.for_each_pieces([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    const std::int64_t start = b * sizes.tokens;
    const T* pivot = static_cast<const T*>(args.x) + start * sizes.channels;
    for (std::int64_t k = begin; k < end; ++k) {
      A* mean = pieces + (b * sizes.pieces + k) * 2 * sizes.stride;
      for (std::int64_t c = 0; c < 2 * sizes.stride; ++c) mean[c] = 0;
      for_each_rows(sizes.rows_of(b, k), [&](std::int64_t r, auto count) {
        measure_rows<T, count>(args, start + k * sizes.piece_rows + r, pivot, r,
                               {mean, mean + sizes.stride});
      });
    }
  });
  sizes.for_each_channels([&](std::int64_t begin, std::int64_t end) {
    finish_images<T>(args, sizes, pieces, begin, end);
    if (args.batch_mean) finish_batch<A>(args, begin, end);
  });
}

template <class T, int kRows>
void apply_rows(const SwitchableNormForward& args, const FoldedImage<AccumulatorOf<T>>& f,
                std::int64_t image, std::int64_t token) {
  using A = AccumulatorOf<T>;
  const std::int64_t channels = args.terms.channels;
  const std::int64_t first = (image * args.terms.tokens + token) * channels;
  const T* x = static_cast<const T*>(args.terms.x) + first;
  T* y = static_cast<T*>(args.y) + first;
  const A* weight = static_cast<const A*>(args.weight);
  const A* bias = static_cast<const A*>(args.bias);
  const A *pivots = f.pivot, *shifts = f.shift, *vars = f.var;
  const TokenValues<A, kRows> token_shift(f.token_shift, token), token_var(f.token_var, token);
  for_each_vector<A>(channels, [=](std::int64_t c, auto count) {
    const Vec<A> pivot = load(pivots + c), shift = load(shifts + c), var = load(vars + c);
    const Vec<A> w = load_n(weight + c, count), b = load_n(bias + c, count);
    for (int r = 0; r < kRows; ++r) {
      const Vec<A> centred =
          (load_n(x + r * channels + c, count) - pivot) - (shift + token_shift[r]);
      const Vec<A> rstd = rsqrt(Vec<A>(var + token_var[r]));
      store_n(y + r * channels + c, Vec<A>(centred * rstd * w + b), count);
    }
  });
}

template <class A>
void move_running(const SwitchableNormForward& args) {
  const double* batch_mean = static_cast<const double*>(args.terms.batch_mean);
  const A* batch_var = static_cast<const A*>(args.terms.batch_var);
  A* mean = static_cast<A*>(args.next_mean);
  A* var = static_cast<A*>(args.next_var);
  const A share = static_cast<A>(args.momentum);
  for (std::int64_t c = 0; c < args.terms.channels; ++c) {
    mean[c] = (1 - share) * mean[c] + share * static_cast<A>(batch_mean[c]);
    var[c] = (1 - share) * var[c] + share * batch_var[c];
  }
}

template <class T>
void apply(CpuQueue& queue, const SwitchableNormForward& args) {
  using A = AccumulatorOf<T>;
  const SwitchableSizes sizes(args.terms);
  sizes.for_each_pieces([&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    Scratch::Scope scope(queue.scratch());
    const FoldedImage<A> image(args.terms, sizes, b, begin, end, scope);
    for (std::int64_t k = begin; k < end; ++k) {
      for_each_rows(sizes.rows_of(b, k), [&](std::int64_t r, auto count) {
        apply_rows<T, count>(args, image, b, k * sizes.piece_rows + r);
      });
    }
    for_pads(sizes, b, end, [&](std::int64_t first, std::int64_t count) {
      T* y = static_cast<T*>(args.y) + (b * sizes.tokens + first) * sizes.channels;
      std::fill_n(y, count * sizes.channels, static_cast<T>(0.0f));
    });
  });
}

}  // namespace

void run(CpuQueue& queue, const SwitchableNormStatistics& args) {
  for_dtype("SwitchableNormStatistics", args.terms.dtype, [&](auto tag) {
    if (!args.terms.is_empty()) measure<decltype(tag)>(queue, args.terms);
  });
}

void run(CpuQueue& queue, const SwitchableNormForward& args) {
  for_dtype("SwitchableNormForward", args.terms.dtype, [&](auto tag) {
    if (!args.terms.is_empty()) apply<decltype(tag)>(queue, args);
    if (args.next_mean) move_running<AccumulatorOf<decltype(tag)>>(args);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(dtn::SwitchableNormStatistics)
DTN_DISPATCH(dtn::SwitchableNormForward)
