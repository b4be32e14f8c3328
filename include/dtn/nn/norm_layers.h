// Layers with a normalizer at one end, as convolutional networks have them.
//
// In an evaluation a BatchNorm is a gain g and a shift s of every channel. They go into the weights
// of the layer then, of which there are few, and not into the tokens, of which there are many:
//   behind the layer   g (W x) + s = (g W) x + s,           g a factor of each row
//   ahead of it        W (g x + s) + b = (W g) x + b + W s,  g a factor of each column
// Nothing that is saved changes. Normalizers that depend on their input stay where they are.
#pragma once

#include <memory>

#include "dtn/nn/linear.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

// The normalizer behind a layer.
struct OutputNorm {
  NormConfig norm;
  NormShape shape;  // channels: those that the layer puts out
  // Its parameter `weight` starts at 0, and so does a residual branch that ends in it.
  bool zero = false;
};

// A convolution without bias, then a normalizer.
class ConvNorm {
 public:
  // The parameters of the convolution lie in the first scope, the normalizer's in the second;
  // options.bias is left out of account.
  ConvNorm(const Scope& conv, const Scope& norm, std::int64_t in, TokenConv::Options options,
           const OutputNorm& output);

  Tokens forward(Context&, const Tokens&) const;
  // Both one after the other, by their references.
  Tokens reference(Context&, const Tokens&) const;

 private:
  TokenConv conv_;
  std::unique_ptr<Normalizer> norm_;
};

// A linear layer without bias, then a normalizer. Scopes as above.
class LinearNorm {
 public:
  // The weight starts uniform within +-1 / sqrt(in).
  LinearNorm(const Scope& linear, const Scope& norm, std::int64_t in, const OutputNorm& output);

  // x [B, T, in] -> [B, T, channels], T = grid.tokens()
  Variable forward(Context&, const Variable& x, const TokenGrid& grid) const;
  // The same, showing an observer of the context what the normalizer does.
  Variable forward_shown(Context&, const Variable& x, const TokenGrid& grid) const;
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
  Variable reference(Context&, const Variable& x) const;

 private:
  std::unique_ptr<Normalizer> norm_;
  Linear linear_;
};

}  // namespace dtn
