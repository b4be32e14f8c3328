// Squeeze-and-excitation (Hu, Shen and Sun, CVPR 2018): multiplies every channel of an image by a
// factor between 0 and 1, computed from the means of all channels:
//     y = x sigmoid(W2 relu(W1 mean(x) + b1) + b2)
// Parameters: fc1.{weight [S, C, 1, 1], bias [S]}, fc2.{weight [C, S, 1, 1], bias [C]}.
#pragma once

#include "dtn/nn/token_conv.h"

namespace dtn {

class SqueezeExcitation {
 public:
  // C = channels, S = inside.
  SqueezeExcitation(const Scope&, std::int64_t channels, std::int64_t inside);

  // x [B, T, C] -> [B, T, C]
  Variable forward(Context&, const Variable& x) const;

 private:
  TokenConv fc1_, fc2_;
};

}  // namespace dtn
