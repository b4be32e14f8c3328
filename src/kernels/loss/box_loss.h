// L1 loss of box deltas. Only anchors whose label is a class count:
//    loss = scale sum over (b, i) with label >= 0 of sum_k |d[b, i, k] - d*[b, i, k]|
//    dd = upstream scale sign(d - d*), or 0 for other anchors
// The sum is in float64, in an order that depends only on the shape. "acc" is the accumulator type:
// float32, or float64 for float64, which runs on the CPU only. A NaN of a counted anchor makes the
// loss and its own gradient NaN.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/loss/anchor_labels.h"

namespace dtn {

inline constexpr int kBoxDeltas = 4;  // values of a box

struct BoxLossInputs : AnchorLabels {
  DType dtype;         // of the deltas
  const void* deltas;  // [B, n, 4]
  // [B, N, 4] acc: those of (b, i) at row b stride + i
  const void* targets;
  const void* scale;  // [1] acc
};

struct BoxLossForward : BoxLossInputs {
  void* loss;  // [1] acc
};
void run(CpuQueue&, const BoxLossForward&);
void run(CudaQueue&, const BoxLossForward&);

struct BoxLossBackward : BoxLossInputs {
  const void* upstream;  // [1] acc
  void* ddeltas;         // [B, n, 4], =; may be `deltas`
};
void run(CpuQueue&, const BoxLossBackward&);
void run(CudaQueue&, const BoxLossBackward&);

}  // namespace dtn
