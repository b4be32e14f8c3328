// Softmax cross-entropy with class weights and the factor of the focal loss (Lin et al., "Focal
// loss for dense object detection", ICCV 2017), here for the probabilities of a softmax:
//    p       = softmax(z_b)
//    loss[b] = sum_k t_bk w_k (1 - p_k)^gamma (-log p_k)
//    a_k     = t_bk w_k (1 - p_k)^gamma (1 + gamma p_k (-log p_k) / (1 - p_k))
//    dz_bk   = scale (p_k sum_j a_j - a_k)
// t are the targets, see ClassTargets in class_targets.h, and w the weights of the classes.
//
// A factor t w of 0 makes its product 0, even with an infinity. NaN among the logits of a row makes
// its loss NaN. The caller should reject a label outside [0, K). It gives a NaN loss and a NaN
// gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/loss/class_targets.h"

namespace dtn {

struct WeightedCrossEntropyInputs : ClassTargets {
  DType dtype;  // of logits
  std::int64_t rows, classes;
  const void* logits;                   // [rows, K]
  const void* class_weights = nullptr;  // [K], accumulator type, at least 0; null: 1
  double gamma = 0;                     // at least 0
};

struct WeightedCrossEntropyForward : WeightedCrossEntropyInputs {
  void* loss;  // [rows], accumulator type
  void* lse;   // [rows], accumulator type, for backward
};
void run(CpuQueue&, const WeightedCrossEntropyForward&);
void run(CudaQueue&, const WeightedCrossEntropyForward&);

struct WeightedCrossEntropyBackward : WeightedCrossEntropyInputs {
  const void* lse;                 // [rows]
  double scale;                    // e.g. 1 / batch
  void* dlogits;                   // [rows, K]; may be logits
  const void* upstream = nullptr;  // [1], accumulator type: factor, on the device of dlogits
};
void run(CpuQueue&, const WeightedCrossEntropyBackward&);
void run(CudaQueue&, const WeightedCrossEntropyBackward&);

}  // namespace dtn
