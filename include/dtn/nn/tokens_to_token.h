// The token embedding of T2T-ViT (Yuan et al., ICCV 2021). It splits an image into overlapping
// windows three times. Between the splits each window is a token of a small transformer, so the
// final patches contain information from their surroundings.
//
// The splits are 7 x 7 with stride 4, then 3 x 3 with stride 2 twice, with zeros around the grid.
// Parameters: attention1 and attention2 (those of TokenTransformer) and project.{weight [C, 576],
// bias [C]}.
#pragma once

#include "dtn/nn/mlp.h"
#include "dtn/nn/normalizer.h"
#include "dtn/nn/tokens.h"

namespace dtn {

// A transformer block with one head of 64 channels, for tokens with D channels:
//     (q, k, v) = qkv(norm1 x)
//     y = v + proj(softmax(q k^T / sqrt(D)) v)
//     z = y + mlp(norm2 y)
// There is no residual connection from x. Parameters: norm1 [D], attn.qkv.weight [192, D],
// attn.proj.{weight [64, 64], bias}, norm2 [64], mlp.{fc1, fc2}.{weight [64, 64], bias}.
class TokenTransformer {
 public:
  static constexpr std::int64_t kWidth = 64;

  TokenTransformer(const Scope&, std::int64_t channels, double eps);

  // x [B, T, D] -> [B, T, 64]
  Variable forward(Context&, const Variable& x) const;

 private:
  std::int64_t channels_;
  std::unique_ptr<Normalizer> norm1_;
  Linear qkv_, proj_;
  std::unique_ptr<Normalizer> norm2_;
  Mlp mlp_;
};

class TokensToToken {
 public:
  static constexpr int kStride = 16;  // pixels from one token to the next

  // From images with `channels` channels to tokens with `width` channels.
  TokensToToken(const Scope&, std::int64_t channels, std::int64_t width, double eps);

  // images [B, channels, H, W] -> tokens [B, h w, width], h = ceil(H / 16)
  Tokens forward(Context&, const Tensor& images) const;

 private:
  TokenTransformer attention1_, attention2_;
  Linear project_;
};

}  // namespace dtn
