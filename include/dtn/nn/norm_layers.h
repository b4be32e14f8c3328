// Layers fused with a normalizer before or after them, as in convolutional networks.
//
// In an evaluation a BatchNorm is a gain g and a shift s for each channel. They are folded into the
// small weight of the layer, so that the tokens need no extra pass:
//     normalizer after the layer    g (W x) + s = (g W) x + s            g scales the rows
//     normalizer before the layer   W (g x + s) + b = (W g) x + b + W s  g scales the columns
// Saved parameters do not change. A normalizer that depends on its input is not folded.
#pragma once

#include <memory>

#include "dtn/nn/linear.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

// The normalizer after a layer.
struct OutputNorm {
  NormConfig norm;
  NormShape shape;  // its channels are the layer's output channels
  // The parameter `weight` starts at 0, and so does a residual branch that ends in the normalizer.
  bool zero = false;
};

// A convolution, then a normalizer. The convolution has a bias only if the normalizer is `none`.
class ConvNorm {
 public:
  // The first scope holds the parameters of the convolution, the second those of the normalizer.
  // options.bias is ignored.
  ConvNorm(const Scope& conv, const Scope& norm, std::int64_t in, TokenConv::Options options,
           const OutputNorm& output);

  // x [B, h w, in] -> [B, h' w', channels]
  Tokens forward(Context& ctx, const Tokens& tokens) const { return run(ctx, tokens, false); }
  // relu(forward()), in fewer passes.
  Tokens forward_relu(Context& ctx, const Tokens& tokens) const { return run(ctx, tokens, true); }
  // Runs the references of both layers in turn.
  Tokens reference(Context&, const Tokens&) const;
  // The two layers, for a caller that needs the tokens between them.
  const TokenConv& conv() const { return conv_; }
  Normalizer& norm() const { return *norm_; }

 private:
  Tokens run(Context&, const Tokens&, bool relu) const;

  TokenConv conv_;
  std::unique_ptr<Normalizer> norm_;
};

// A linear layer without bias, then a normalizer. Scopes as above.
class LinearNorm {
 public:
  // The initial weight is uniform within +-1 / sqrt(in).
  LinearNorm(const Scope& linear, const Scope& norm, std::int64_t in, const OutputNorm& output);

  // x [B, T, in] -> [B, T, channels], T = grid.tokens()
  Variable forward(Context&, const Variable& x, const TokenGrid& grid) const;
  // forward(), which also shows the normalizer's input and output to the observer of the context.
  Variable forward_shown(Context&, const Variable& x, const TokenGrid& grid) const;
  // Runs the references of both layers in turn.
  Variable reference(Context&, const Variable& x, const TokenGrid& grid) const;
  const Normalizer& norm() const { return *norm_; }

 private:
  Parameter* weight_;
  std::unique_ptr<Normalizer> norm_;
};

// A normalizer, then a linear layer with bias. Scopes as above.
class NormLinear {
 public:
  NormLinear(const Scope& norm, const Scope& linear, const NormConfig& config,
             const NormShape& shape, std::int64_t out);

  // x [B, C] -> [B, out]
  Variable forward(Context&, const Variable& x) const;
  // Runs the references of both layers in turn.
  Variable reference(Context&, const Variable& x) const;

 private:
  std::unique_ptr<Normalizer> norm_;
  Linear linear_;
};

// Embeds a token map or the pixels of images as a coarser map: a convolution and a LayerNorm. It
// starts a stage of a model. Parameters: proj.{weight, bias} (token_conv.h), norm.{weight, bias}.
class ConvEmbed {
 public:
  ConvEmbed(const Scope&, std::int64_t in, std::int64_t out, const TokenConv::Options&);

  // x [B, h w, in] -> [B, h' w', out]. The input must have no prefix tokens.
  Tokens forward(Context&, const Tokens&) const;

 private:
  TokenConv proj_;
  std::unique_ptr<Normalizer> norm_;
};

}  // namespace dtn
