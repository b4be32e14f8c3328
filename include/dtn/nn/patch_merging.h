// Patch merging of Swin (Liu et al., ICCV 2021, Section 3.1), which halves a grid. The channels of
// every 2 x 2 tokens are joined in the order (row, column) = (0, 0), (1, 0), (0, 1), (1, 1), then
// LayerNorm and a linear layer follow. Parameters: norm.{weight, bias} [4 C], reduction.weight
// [out, 4 C].
#pragma once

#include <memory>

#include "dtn/nn/linear.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

class PatchMerging {
 public:
  PatchMerging(const Scope&, std::int64_t channels, std::int64_t out, double eps);

  // x [B, h w, C] -> [B, h/2 w/2, out]. Throws Error if h or w is odd.
  Tokens forward(Context&, const Tokens&) const;

 private:
  std::unique_ptr<Normalizer> norm_;
  Linear reduction_;
};

}  // namespace dtn
