// Clips the gradient of each tensor by itself, as in DINO's training code (Caron et al., "Emerging
// properties in self-supervised vision transformers", ICCV 2021). For a tensor with gradient g:
//   f = clip / (scale ||g|| + 1e-6);  g *= f  if f < 1
// A gradient that is not finite stays so.
#pragma once

#include "core/queue.h"
#include "kernels/optimizer/tensor_chunks.h"

namespace dtn {

struct ParameterClip {
  float* grad;           // aligned to 16 bytes
  TensorChunks tensors;  // on the gradient's device; elements between the tensors stay unchanged
  double clip;
  double scale = 1;  // later factor of the gradients
};
void run(CpuQueue&, const ParameterClip&);
void run(CudaQueue&, const ParameterClip&);

}  // namespace dtn
