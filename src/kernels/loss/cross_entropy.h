// Softmax cross-entropy against class labels (with label smoothing) or soft targets:
//    loss[b] = lse(z_b) sum_k t_bk - sum_k t_bk z_bk
//    dz_b    = scale (softmax(z_b) sum_k t_bk - t_b)
// t are the targets, see ClassTargets in class_targets.h.
// NaN among the logits of a row makes its loss NaN. The caller should reject a label outside
// [0, K). It gives a NaN loss and a NaN gradient row.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/loss/class_targets.h"

namespace dtn {

struct CrossEntropyForward : ClassTargets {
  DType dtype;  // of logits
  std::int64_t rows, classes;
  const void* logits;  // [rows, K]
  void* loss;          // [rows], accumulator type
  void* lse;           // [rows], accumulator type, for backward
};
void run(CpuQueue&, const CrossEntropyForward&);
void run(CudaQueue&, const CrossEntropyForward&);

struct CrossEntropyBackward : ClassTargets {
  DType dtype;
  std::int64_t rows, classes;
  const void* logits;
  const void* lse;                 // [rows]
  double scale;                    // e.g. 1 / batch
  void* dlogits;                   // [rows, K]; may be logits
  const void* upstream = nullptr;  // [1], accumulator type: factor, on the device of dlogits
};
void run(CpuQueue&, const CrossEntropyBackward&);
void run(CudaQueue&, const CrossEntropyBackward&);

}  // namespace dtn
