// LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020) as in timm, and so in
// NVIDIA's:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd p
//   p -= lr r u
// r is ||p|| / ||u|| of the whole tensor where both are positive, else 1; and 1 without weight
// decay.
#pragma once

#include <cstdint>

#include "kernels/optimizer/optimizer.h"

namespace dtn {

// A part of one tensor. Sums go over the elements of a chunk, then over the chunks of a tensor in
// their order.
struct LambChunk {
  std::int64_t begin, end;  // of the elements; begin is a multiple of 4
  std::int64_t tensor;
};
inline constexpr std::int64_t kLambChunk = 8192;  // elements, but for the last of a tensor

// Which tensors there are, in the memory of the device.
struct LambTensors {
  std::int64_t chunk_count = 0, tensor_count = 0;
  const LambChunk* chunks = nullptr;          // [chunk_count], tensor by tensor
  const std::int64_t* first_chunk = nullptr;  // [tensor_count + 1]
};

struct LambStep {
  std::int64_t count;
  float* param;
  float* m;
  float* v;
  const float* grad;
  bfloat16* param_bf16 = nullptr;
  double lr, beta1, beta2, eps, weight_decay;
  std::int64_t t;  // 1 for the first update
  double grad_scale = 1;
  const StepInputs* inputs = nullptr;  // as for AdamW
  const UpdateState* state = nullptr;
  double lr_factor = 1;
  // None: r is 1. Else what is between the tensors is left alone, and buffers are aligned to 16
  // bytes.
  LambTensors tensors{};
};
void run(CpuQueue&, const LambStep&);
void run(CudaQueue&, const LambStep&);

}  // namespace dtn
