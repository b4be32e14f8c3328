// LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020) as in timm, which
// follows NVIDIA's implementation:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p
//   p -= lr r u
// r is ||p|| / ||u|| of the whole tensor if both norms are positive, otherwise 1; it is 1 for
// parameters without weight decay.
#pragma once

#include "kernels/optimizer/optimizer.h"
#include "kernels/optimizer/tensor_chunks.h"

namespace dtn {

struct LambStep : AdamWStep {
  // Empty: r is 1. Otherwise elements between the tensors stay unchanged, and buffers are aligned
  // to 16 bytes.
  TensorChunks tensors{};
};
void run(CpuQueue&, const LambStep&);
void run(CudaQueue&, const LambStep&);

}  // namespace dtn
