// Shared code of switchable normalization on the CPU: the split of the tokens into pieces, and the
// statistics folded into few terms per channel and per token. See switchable_norm.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/row_sums.h"
#include "kernels/norm/switchable_norm.h"

// The iterations of the next loop do not depend on each other, which GCC cannot see.
#if defined(__clang__)
#define DTN_INDEPENDENT
#else
#define DTN_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace dtn::DTN_ISA {

// Rows that are processed together, so that the values of a channel are loaded once for all.
inline constexpr int kSwitchableRows = 4;

struct SwitchableSizes {
  std::int64_t batch, tokens, channels;
  const std::int64_t* lengths;  // [B]; null: all samples have `tokens` tokens
  std::int64_t stride;          // channels, padded to whole vectors of any type
  std::int64_t piece_rows;      // tokens per piece; the last piece of an image may be shorter
  std::int64_t pieces;          // per image

  explicit SwitchableSizes(const SwitchableTerms& t)
      : batch(t.batch),
        tokens(t.tokens),
        channels(t.channels),
        lengths(t.lengths),
        stride((t.channels + 15) / 16 * 16) {
    // About 64 pieces in total keep many threads busy. Pieces under kMinRows are not worth it.
    constexpr std::int64_t kPieces = 64, kMinRows = 16;
    const std::int64_t wanted = (kPieces + batch - 1) / batch;
    std::int64_t rows = (t.most_tokens() + wanted - 1) / wanted;
    if (rows < kMinRows) rows = kMinRows;
    piece_rows = (rows + kSwitchableRows - 1) / kSwitchableRows * kSwitchableRows;
    pieces = (t.most_tokens() + piece_rows - 1) / piece_rows;
  }

  std::int64_t tokens_of(std::int64_t image) const { return lengths ? lengths[image] : tokens; }
  // Returns the rows of a piece: 0 if it lies past the end of a short sample.
  std::int64_t rows_of(std::int64_t image, std::int64_t piece) const {
    return std::clamp<std::int64_t>(tokens_of(image) - piece * piece_rows, 0, piece_rows);
  }

  // Returns the end of the tokens of the pieces before `piece`.
  std::int64_t end_of(std::int64_t image, std::int64_t piece) const {
    return std::min(tokens_of(image), piece * piece_rows);
  }

  // Calls f(image, begin, end) for ranges of the pieces of every image, in parallel. A range is all
  // pieces of an image if whole images keep the threads busy, so that the terms of an image are
  // computed once. If images differ in length, a range is one piece.
  template <class F>
  void for_each_pieces(F&& f) const {
    const std::int64_t threads = max_threads(), rounds = (batch + threads - 1) / threads;
    const std::int64_t together = !lengths && batch * 8 >= rounds * threads * 7 ? pieces : 1;
    const std::int64_t ranges = pieces / together;
    parallel_for(batch * ranges, [&](std::int64_t i) {
      const std::int64_t begin = i % ranges * together;
      f(i / ranges, begin, begin + together);
    });
  }

  // Calls f(begin, end) for ranges of at most kChannelsTogether channels.
  static constexpr std::int64_t kChannelsTogether = 64;
  template <class F>
  void for_each_channels(F&& f) const {
    parallel_ranges(channels, kChannelsTogether, f);
  }
};

// Like for_each_group() with kSwitchableRows, of which GCC makes a slower backward pass, because it
// is not marked inline.
template <class F>
inline void for_each_rows(std::int64_t rows, F&& f) {
  std::int64_t r = 0;
  for (; r + kSwitchableRows <= rows; r += kSwitchableRows) {
    f(r, std::integral_constant<int, kSwitchableRows>{});
  }
  for (; r < rows; ++r) f(r, std::integral_constant<int, 1>{});
}

// Calls f(first, count) for the pads of an image, if there are any and its last piece is included.
template <class F>
inline void for_pads(const SwitchableSizes& sizes, std::int64_t image, std::int64_t end_piece,
                     F&& f) {
  const std::int64_t count = sizes.tokens - sizes.tokens_of(image);
  if (end_piece == sizes.pieces && count > 0) f(sizes.tokens_of(image), count);
}

// Values of kRows tokens from `token` on. They are copied first, because the compiler must assume
// that later stores could change them.
template <class A, int kRows>
struct TokenValues {
  A at[kRows];
  TokenValues(const A* values, std::int64_t token) {
    for (int r = 0; r < kRows; ++r) at[r] = values[token + r];
  }
  A operator[](int r) const { return at[r]; }
};

// Softmax of three logits. In float64, its sum is close enough to 1 for means of any size.
struct SwitchableShares {
  double in, ln, bn;
};
template <class A>
inline SwitchableShares switchable_shares(const void* logits) {
  const A* l = static_cast<const A*>(logits);
  double top = l[0], e[3];
  for (int k = 1; k < 3; ++k) top = l[k] > top ? l[k] : top;
  for (int k = 0; k < 3; ++k) e[k] = std::exp(l[k] - top);
  const double sum = e[0] + e[1] + e[2];
  return {e[0] / sum, e[1] / sum, e[2] / sum};
}

// Calls f(mean, var) with pointers to the batch statistics, or to the running statistics if those
// are missing.
template <class A, class F>
inline void with_batch_statistics(const SwitchableTerms& t, F&& f) {
  if (t.batch_mean) {
    return f(static_cast<const double*>(t.batch_mean), static_cast<const A*>(t.batch_var));
  }
  f(static_cast<const A*>(t.running_mean), static_cast<const A*>(t.running_var));
}

// Statistics of one image.
template <class A>
struct ImageStatistics {
  const double *token_mean, *image_mean;
  const A *token_var, *image_var;

  ImageStatistics(const SwitchableTerms& t, std::int64_t b)
      : token_mean(static_cast<const double*>(t.token_mean) + b * t.tokens),
        image_mean(static_cast<const double*>(t.image_mean) + b * t.channels),
        token_var(static_cast<const A*>(t.token_var) + b * t.tokens),
        image_var(static_cast<const A*>(t.image_var) + b * t.channels) {}
};

// Statistics of one image, folded for use:
//    x - mu = (x - pivot[c]) - (shift[c] + token_shift[t])
//    var + eps = var[c] + token_var[t]
// The pivot is the rounded mean of the channel, so these differences keep all significant digits.
// Channels of the padding have pivot and shift 0 and variance 1.
template <class A>
struct FoldedImage {
  A *pivot, *shift, *var;      // [stride]
  A *token_shift, *token_var;  // [T], written for the tokens of the pieces

  // For pieces [begin, end) of image b.
  FoldedImage(const SwitchableTerms& terms, const SwitchableSizes& sizes, std::int64_t b,
              std::int64_t begin, std::int64_t end, Scratch::Scope& scope)
      : pivot(scope.take<A>(3 * sizes.stride)),
        shift(pivot + sizes.stride),
        var(shift + sizes.stride),
        token_shift(scope.take<A>(2 * sizes.tokens)),
        token_var(token_shift + sizes.tokens) {
    const SwitchableShares w = switchable_shares<A>(terms.mean_weight);
    const SwitchableShares v = switchable_shares<A>(terms.var_weight);
    const ImageStatistics<A> image(terms, b);
    const double base = image.token_mean[0], eps = terms.eps;
    const A token_share = static_cast<A>(v.ln);
    const std::int64_t last = sizes.end_of(b, end);
    DTN_INDEPENDENT
    for (std::int64_t t = begin * sizes.piece_rows; t < last; ++t) {
      token_shift[t] = static_cast<A>(w.ln * (image.token_mean[t] - base));
      token_var[t] = token_share * image.token_var[t];
    }
    with_batch_statistics<A>(terms, [&](const auto* batch_mean, const A* batch_var) {
      DTN_INDEPENDENT
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        const A rounded = static_cast<A>(image.image_mean[c]);
        pivot[c] = rounded;
        shift[c] = static_cast<A>(w.in * image.image_mean[c] + w.bn * batch_mean[c] + w.ln * base -
                                  rounded);
        var[c] = static_cast<A>(v.in * image.image_var[c] + v.bn * batch_var[c] + eps);
      }
    });
    for (std::int64_t c = sizes.channels; c < sizes.stride; ++c) {
      pivot[c] = shift[c] = 0;
      var[c] = 1;
    }
  }
};

}  // namespace dtn::DTN_ISA
