// From images to tokens: a convolution whose stride is its size, so that each patch of P x P pixels
// becomes a token. Parameters: proj.weight [C, channels, P, P], proj.bias [C] where there is
// one.
#pragma once

#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"

namespace dtn {

struct Context;

class PatchEmbed {
 public:
  struct Options {
    std::int64_t channels;  // of the image
    std::int64_t patch;     // P
    std::int64_t width;     // C
    bool bias = true;
  };
  PatchEmbed(const Scope&, const Options&);

  // images [B, channels, height, width] float32 (float64 with float64 weights), of which P divides
  // height and width. Tokens come in the type ctx.mode.compute.
  Tokens forward(Context&, const Tensor& images) const;

 private:
  Options options_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace dtn
