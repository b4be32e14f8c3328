// Positional normalization and the moment shortcut (Li, Wu, Weinberger and Belongie, "Positional
// normalization", 2019). The encoder's normalization removes moments, and the decoder applies them
// again. Image-to-image models use them (model.shortcut: ms, dms).
//
//   auto [y, mean, std] = PositionalNorm(1e-5).forward(ctx, x);        // in the encoder
//   Variable z = moment_shortcut(ctx, features, mean, std);            // in the decoder
#pragma once

#include "dtn/nn/conditional_norm.h"
#include "dtn/ops/modulation.h"

namespace dtn {

// Normalizes each token of x [B, T, C] over its channels:
//     y = (x - mean) / std,  std = sqrt(var + eps)
// The variance is biased, as in the paper (the authors' PyTorch code divides by C - 1). No
// parameters. Followed by LayerNorm's weight and bias it is LayerNorm.
class PositionalNorm {
 public:
  explicit PositionalNorm(double eps = 1e-5) : eps_(eps) {}
  // y [B, T, C] in the type of x; mean and std [B, T] in the accumulator type, with gradients.
  ops::Standardized forward(Context& ctx, const Variable& x) const {
    return ops::standardize_tokens(ctx, x, eps_);
  }
  // The same made of primitive operations.
  ops::Standardized reference(Context& ctx, const Variable& x) const {
    return ops::reference::standardize_tokens(ctx, x, eps_);
  }

 private:
  double eps_;
};

// std x + mean, for x [B, T, C'] with the encoder's number of tokens and any number of channels.
inline Variable moment_shortcut(Context& ctx, const Variable& x, const Variable& mean,
                                const Variable& std) {
  return ops::scale_shift_tokens(ctx, x, std, mean);
}

// The dynamic moment shortcut: a small convolutional network over the grid computes gain and shift
// of every element of x from the encoder's moments:
//     y = x (1 + gain) + shift,   (shift, gain) = conv(relu(conv([mean, std])))
// with 3 x 3 convolutions and zeros around the grid. Parameters: hidden.{weight [M, 9 2], bias [M]}
// and modulation.{weight [2 C, 9 M], bias [2 C]} with the rows of the shift first. The columns of a
// weight are the neighbours, row by row, and within each neighbour the channels.
class DynamicMomentShortcut {
 public:
  struct Options {
    std::int64_t channels;     // C of the decoder
    std::int64_t hidden = 64;  // M
  };
  DynamicMomentShortcut(const Scope&, const Options&);

  // x [B, T, C], mean and std [B, T].
  Variable forward(Context&, const Variable& x, const TokenGrid&, const Variable& mean,
                   const Variable& std) const;
  // The same made of primitive operations.
  Variable reference(Context&, const Variable& x, const TokenGrid&, const Variable& mean,
                     const Variable& std) const;

 private:
  void check(const Variable& x, const TokenGrid&, const Variable& mean, const Variable& std) const;

  Options options_;
  Linear hidden_, modulation_;
};

}  // namespace dtn
