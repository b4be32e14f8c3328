// Embeds a token map or the pixels of images as a coarser map: a convolution and a LayerNorm. It
// starts a stage of a model. Parameters: proj.{weight, bias} (token_conv.h), norm.{weight, bias}.
#pragma once

#include <memory>

#include "dtn/nn/normalizer.h"
#include "dtn/nn/token_conv.h"

namespace dtn {

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
