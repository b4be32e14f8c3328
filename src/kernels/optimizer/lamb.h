// LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020) as in timm, which
// follows NVIDIA's implementation:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p
//   p -= lr r u
// r is ||p|| / ||u|| of the whole tensor if both norms are positive, otherwise 1; it is 1 for
// parameters without weight decay.
#pragma once

#include <cstdint>

#include "kernels/optimizer/optimizer.h"

namespace dtn {

// Part of one tensor. Sums run over the elements of a chunk, then over the chunks of a tensor in
// order.
struct LambChunk {
  std::int64_t begin, end;  // elements; begin is a multiple of 4
  std::int64_t tensor;
};
inline constexpr std::int64_t kLambChunk = 8192;  // elements, except in the last chunk of a tensor

// Table of the tensors, in device memory.
struct LambTensors {
  std::int64_t chunk_count = 0, tensor_count = 0;
  const LambChunk* chunks = nullptr;          // [chunk_count], tensor by tensor
  const std::int64_t* first_chunk = nullptr;  // [tensor_count + 1]
};

struct LambStep : AdamWStep {
  // Empty: r is 1. Otherwise elements between the tensors stay unchanged, and buffers are aligned
  // to 16 bytes.
  LambTensors tensors{};
};
void run(CpuQueue&, const LambStep&);
void run(CudaQueue&, const LambStep&);

}  // namespace dtn
