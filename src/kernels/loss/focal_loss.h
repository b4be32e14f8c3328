// Focal loss (Lin et al., "Focal loss for dense object detection", ICCV 2017). Each class of an
// anchor is a separate binary decision, with a logit z and a target t of 0 or 1:
//    u = z (1 - 2 t)                          the logit of the wrong answer
//    q = sigmoid(u)                           the probability of the wrong answer
//    w = alpha t + (1 - alpha) (1 - t)
//    loss = scale sum w q^gamma softplus(u),  softplus(u) = log(1 + e^u)
//    dz = upstream scale (1 - 2 t) w q^gamma (gamma (1 - q) softplus(u) + q)
// t is 1 for the class of the anchor. A background anchor has no class. An ignored anchor has no
// loss and a gradient of 0. Any other label outside [0, K) gives a NaN loss and a NaN gradient row.
//
// The sum is in float64, in an order that depends only on the shape. "acc" is the accumulator type:
// float32, or float64 for float64, which runs on the CPU only.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/loss/anchor_labels.h"

namespace dtn {

struct FocalLossInputs : AnchorLabels {
  DType dtype;           // of the logits
  std::int64_t classes;  // K
  const void* logits;    // [B, n, K]
  const void* scale;     // [1] acc
  double alpha, gamma;
};

struct FocalLossForward : FocalLossInputs {
  void* loss;  // [1] acc
};
void run(CpuQueue&, const FocalLossForward&);
void run(CudaQueue&, const FocalLossForward&);

struct FocalLossBackward : FocalLossInputs {
  const void* upstream;  // [1] acc
  void* dlogits;         // [B, n, K], =; may be `logits`
};
void run(CpuQueue&, const FocalLossBackward&);
void run(CudaQueue&, const FocalLossBackward&);

}  // namespace dtn
