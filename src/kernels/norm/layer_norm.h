// Layer normalization over the last dimension:
//   y[r, c] = weight[c] (x[r, c] - mean[r]) rstd[r] + bias[c]
//   rstd[r] = (var[r] + eps)^-1/2
// with the biased variance of row r. x, y and activation gradients have `dtype`; weight, bias,
// statistics and parameter gradients have the accumulator type (float32; float64 for float64).
// Activation gradients are written (=), parameter gradients are added to (+=).
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Parameters that change from one set of rows to the next, such as the tokens of one sample: those
// of set k, and their gradients, lie k strides behind those of the first set. With several sets,
// both weight and bias are given.
struct ParameterSets {
  std::int64_t rows = 0;    // of each set, a divisor of all rows; 0: one set of all rows
  std::int64_t stride = 0;  // in elements
};

struct LayerNormForward {
  DType dtype;
  std::int64_t rows, channels;
  double eps;
  const void* x;       // [rows, C]
  const void* weight;  // [C]; null: 1
  const void* bias;    // [C]; null: 0
  void* y;             // [rows, C]; may be x
  // For backward. The mean is kept as mean - x[row, 0], which float32 holds to the last digit even
  // when it is much larger than the standard deviation.
  void* mean;  // [rows]
  void* rstd;  // [rows]
  ParameterSets sets = {};
  // The moments as they are, where they are wanted: mean and sqrt(var + eps).
  void* row_mean = nullptr;  // [rows]
  void* row_std = nullptr;   // [rows]
};
void run(CpuQueue&, const LayerNormForward&);
void run(CudaQueue&, const LayerNormForward&);

// The end of a residual block and the norm that begins the next, in one pass:
//   sum = residual + row_scale[row / rows_per_scale] branch, rounded to dtype
//   y = LayerNorm(sum)
// The result has the bits of ScaleRows (Add without scales, see pointwise.h) and LayerNormForward.
// Backward needs LayerNormBackward alone, with x = sum: its dx (plus dx_add) is the gradient of
// `residual`, its dbranch that of `branch`.
struct ResidualLayerNormForward {
  DType dtype;
  std::int64_t rows, channels;
  double eps;
  const void* residual;             // [rows, C]
  const void* branch;               // [rows, C]
  const void* row_scale = nullptr;  // [rows / rows_per_scale], accumulator type; null: 1
  std::int64_t rows_per_scale = 1;
  void* sum;           // [rows, C]; may be residual
  const void* weight;  // [C]
  const void* bias;    // [C]
  void* y;             // [rows, C]
  void* mean;          // [rows], as LayerNormForward's
  void* rstd;          // [rows]
};
void run(CpuQueue&, const ResidualLayerNormForward&);
void run(CudaQueue&, const ResidualLayerNormForward&);

// With dxhat = dy weight, xhat = (x - mean) rstd:
//   dx = rstd (dxhat - mean_c(dxhat) - xhat mean_c(dxhat xhat)) + dx_add
//   dweight += sum_r dy xhat,   dbias += sum_r dy
//   dbranch = row_scale[row / rows_per_scale] dx,   from dx as it was rounded
//   dbranch_sums += sum_r dbranch,   as rounded or before
// The sums over rows, those of a set, are taken in chunks fixed by the shape, so they do not depend
// on threads. Gradients of row_mean and row_std add (drow_mean + drow_std xhat) / C to dx.
struct LayerNormBackward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;                 // [rows, C]
  const void* weight;            // [C]; null: 1
  const void* mean;              // [rows]
  const void* rstd;              // [rows]
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C] dtype: what reaches x along the residual; may be dx
  void* dx = nullptr;            // [rows, C], written (=); may be dy
  void* dweight = nullptr;       // [C], +=
  void* dbias = nullptr;         // [C], +=
  // What reaches the branch of ResidualLayerNormForward; only with dx, and a tensor of its own.
  void* dbranch = nullptr;          // [rows, C], written (=)
  void* dbranch_sums = nullptr;     // [C], accumulator type, +=; only with dbranch
  const void* row_scale = nullptr;  // [rows / rows_per_scale], accumulator type; null: 1
  std::int64_t rows_per_scale = 1;
  ParameterSets sets = {};
  const void* drow_mean = nullptr;  // [rows]; null: 0
  const void* drow_std = nullptr;   // [rows]; null: 0
};
void run(CpuQueue&, const LayerNormBackward&);
void run(CudaQueue&, const LayerNormBackward&);

}  // namespace dtn
