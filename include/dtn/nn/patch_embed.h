// Patch embedding: a convolution with stride P and kernel P x P turns each patch of an image into a
// token. Parameters: proj.weight [C, channels, P, P], and with bias proj.bias [C].
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

  // images [B, channels, height, width] float32 (float64 with float64 weights); P must divide
  // height and width. Tokens have the type ctx.mode.compute.
  Tokens forward(Context&, const Tensor& images) const;

 private:
  Options options_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace dtn
