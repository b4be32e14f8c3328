// Normalization of each row by its length, without a mean and without a bias:
//    y[r, c] = weight[c] x[r, c] factor[r]
//    kRms    factor = (mean_c x^2 + eps)^-1/2         RMSNorm (Zhang & Sennrich, NeurIPS 2019)
//    kScale  factor = 1 / max((sum_c x^2)^1/2, eps)   ScaleNorm (Nguyen & Salazar, IWSLT 2019)
// x, y and activation gradients have `dtype`. Weight, factors and parameter gradients have the
// accumulator type (float32; float64 for float64). Activation gradients are overwritten (=),
// parameter gradients are accumulated (+=).
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

enum class RmsNormKind { kRms, kScale };

// Arguments of both directions.
struct RmsNormArguments {
  DType dtype;
  RmsNormKind kind;
  std::int64_t rows, channels;
  double eps;
  const void* x;       // [rows, C]
  const void* weight;  // [C]
};

struct RmsNormForward : RmsNormArguments {
  void* y;       // [rows, C]; may be x
  void* factor;  // [rows], for backward
};
void run(CpuQueue&, const RmsNormForward&);
void run(CudaQueue&, const RmsNormForward&);

//    xhat = x factor,   dxhat = dy weight
//    dx = factor (dxhat - xhat s_c(dxhat xhat)) + dx_add
//    dweight += sum_r dy xhat
// s_c is the mean (kRms) or the sum (kScale) over c, or 0 if kScale divides x by eps. The sum over
// rows is taken in chunks that depend only on the shape, so it does not depend on the number of
// threads.
struct RmsNormBackward : RmsNormArguments {
  const void* factor;            // [rows]
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C] dtype: gradient from the residual; may be dx
  void* dx = nullptr;            // [rows, C], =; may be dy
  void* dweight = nullptr;       // [C], +=
};
void run(CpuQueue&, const RmsNormBackward&);
void run(CudaQueue&, const RmsNormBackward&);

}  // namespace dtn
