// The building block of encoder-decoders: a 3 x 3 convolution, a normalizer and an activation.
#pragma once

#include <optional>

#include "dtn/config/model_config.h"
#include "dtn/nn/norm_layers.h"
#include "dtn/nn/observer.h"

namespace dtn {

// Mean and standard deviation of each token over its channels: [B, T] each, in the accumulator
// type, with gradients. Undefined: not taken.
struct TokenMoments {
  Variable mean, std;
};

// Parameters: conv.weight, conv.bias without a normalizer, and norm.*.
class ConvUnit {
 public:
  struct Options {
    std::int64_t in;
    NormConfig norm;
    NormShape shape;  // its channels are those of the output
    MlpActivation act;
    std::int64_t stride = 1;
    double pono_eps = kDefaultNormEps;  // of forward_and_moments()
  };
  ConvUnit(const Scope&, const Options&);

  // act(norm(conv x)): x [B, h w, in] -> [B, h' w', channels], h' = ceil(h / stride). Runs again in
  // the backward pass if the mode asks for it.
  Tokens forward(Context&, const Tokens&) const;
  // forward() without the activation.
  Tokens normalized(Context&, const Tokens&) const;
  // forward(), and the moments of the convolution's output. With `pono` they are removed from it
  // ahead of the normalizer (PositionalNorm).
  Tokens forward_and_moments(Context&, const Tokens&, bool pono, TokenMoments& moments) const;

  Variable activated(Context&, const Variable& x) const;
  const Normalizer& norm() const { return layers_.norm(); }
  LayerInfo info() const;

 private:
  Tokens run_once(Context&, const Tokens&) const;
  // Shows the beginning of the layer and its normalizer to the observer.
  void show_norm(Context&, const Tokens&) const;

  std::string path_;
  NormShape shape_;
  MlpActivation act_;
  std::int64_t stride_;
  double pono_eps_;
  bool shows_norm_;
  ConvNorm layers_;
};

// A residual block: x + norm(conv(act(norm(conv x)))), x [B, h w, C]. Parameters: 0.*, 1.* (see
// ConvUnit).
class ResidualUnits {
 public:
  ResidualUnits(const Scope&, const ConvUnit::Options&);

  Tokens forward(Context&, const Tokens&) const;
  const ConvUnit& first() const { return first_; }
  const ConvUnit& second() const { return second_; }

 private:
  ConvUnit first_, second_;
};

}  // namespace dtn
