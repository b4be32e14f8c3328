// Layer normalization over the last dimension, with the biased variance of each row:
//    y[r, c] = weight[c] (x[r, c] - mean[r]) rstd[r] + bias[c]
//    rstd[r] = (var[r] + eps)^-1/2
// x, y and activation gradients have `dtype`. Weight, bias, statistics and parameter gradients have
// the accumulator type (float32; float64 for float64). Activation gradients are overwritten (=),
// parameter gradients are accumulated (+=).
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/check.h"
#include "dtn/core/dtype.h"

namespace dtn {

// Parameters that differ between sets of rows, such as the tokens of one sample. The parameters of
// set k, and their gradients, begin k strides after those of the first set. Several sets need both
// weight and bias.
struct ParameterSets {
  std::int64_t rows = 0;    // per set, a divisor of all rows; 0: one set of all rows
  std::int64_t stride = 0;  // in elements
  // True: `weight` holds scales, and the factor is 1 + scale. Needs a weight and sets.
  bool scales = false;
};

struct LayerNormForward {
  DType dtype;
  std::int64_t rows, channels;
  double eps;
  const void* x;       // [rows, C]; not read if there is a residual
  const void* weight;  // [C]; null: 1
  const void* bias;    // [C]; null: 0
  void* y;             // [rows, C]; may be x
  // Statistics for the backward pass. `mean` holds mean - x[row, 0], which is accurate in float32
  // even when the mean is much larger than the standard deviation.
  void* mean;  // [rows]
  void* rstd;  // [rows]
  ParameterSets sets = {};
  // Moments as outputs, or null: mean and sqrt(var + eps).
  void* row_mean = nullptr;  // [rows]
  void* row_std = nullptr;   // [rows]
  // The end of the residual block before the norm, in the same pass. It needs one set, weight
  // and bias, and no moments as outputs:
  //    x = sum = residual + row_scale[row / rows_per_scale] branch, rounded to dtype
  // The result is bit-identical to ScaleRows (without row_scale: Add; see pointwise.h) followed by
  // the norm. The backward pass needs only LayerNormBackward with x = sum. Its dx (plus dx_add) is
  // the gradient of `residual`, and its dbranch is the gradient of `branch`.
  const void* residual = nullptr;   // [rows, C]; null: x is given
  const void* branch = nullptr;     // [rows, C]
  const void* row_scale = nullptr;  // [rows / rows_per_scale], accumulator type; null: 1
  std::int64_t rows_per_scale = 1;
  void* sum = nullptr;  // [rows, C]; may be residual
  // A gate per channel of each set, instead of row_scale. It needs several sets:
  //    x = sum = residual + gate[set] branch, rounded to dtype
  // The result is bit-identical to GateForward (modulate.h) followed by the norm.
  const void* gate = nullptr;  // [sets, C], accumulator type; null: no gate
};
// Throws Error if the kernel cannot compute the residual sum.
inline void check_residual(const LayerNormForward& args) {
  const bool by_sets = args.sets.rows > 0;
  DTN_CHECK(by_sets == (args.gate != nullptr) && (!args.gate || !args.row_scale) && args.weight &&
                args.bias && !args.row_mean && !args.row_std,
            "layer_norm: a residual sum needs weight and bias, no moments, and one set of rows, or "
            "several sets and a gate");
}
void run(CpuQueue&, const LayerNormForward&);
void run(CudaQueue&, const LayerNormForward&);

//    xhat = (x - mean) rstd,   dxhat = dy weight
//    dx = rstd (dxhat - mean_c(dxhat) - xhat mean_c(dxhat xhat)) + dx_add
//    dweight += sum_r dy xhat,   dbias += sum_r dy
//    dbranch = row_scale[row / rows_per_scale] dx,   from the rounded dx
//    dbranch_sums += sum_r dbranch,   from dbranch before or after rounding
// With a gate, bit-identical to GateBackward (modulate.h) with dy = dx:
//    dbranch = gate[set] dx,   dgate[set] = sum_r dx branch,   from the rounded dx
// Gradients of row_mean and row_std add (drow_mean + drow_std xhat) / C to dx. The sums over the
// rows of a set are taken in chunks that depend only on the shape, so results do not depend on the
// number of threads.
struct LayerNormBackward {
  DType dtype;
  std::int64_t rows, channels;
  const void* x;                 // [rows, C]
  const void* weight;            // [C]; null: 1
  const void* mean;              // [rows]
  const void* rstd;              // [rows]
  const void* dy;                // [rows, C]
  const void* dx_add = nullptr;  // [rows, C] dtype: gradient from the residual; may be dx
  void* dx = nullptr;            // [rows, C], =; may be dy
  void* dweight = nullptr;       // [C], +=
  void* dbias = nullptr;         // [C], +=
  // Gradient of the branch. Needs dx, and memory that no other tensor uses.
  void* dbranch = nullptr;          // [rows, C], =
  void* dbranch_sums = nullptr;     // [C], accumulator type, +=; only with dbranch
  const void* row_scale = nullptr;  // [rows / rows_per_scale], accumulator type; null: 1
  std::int64_t rows_per_scale = 1;
  ParameterSets sets = {};
  const void* drow_mean = nullptr;  // [rows]; null: 0
  const void* drow_std = nullptr;   // [rows]; null: 0
  // Gradients of a gated branch, instead of dbranch_sums and row_scale. They need several sets, dx,
  // and dbranch.
  const void* branch = nullptr;  // [rows, C]
  const void* gate = nullptr;    // [sets, C], accumulator type; null: no gate
  void* dgate = nullptr;         // [sets, C], accumulator type, =
};
// Throws Error if arguments for the gradients of a gate are missing.
inline void check_gate(const LayerNormBackward& args) {
  if (!args.gate) return;
  DTN_CHECK(args.sets.rows > 0 && args.dx && args.branch && args.dbranch && args.dgate &&
                !args.dbranch_sums && !args.row_scale,
            "layer_norm: a gate needs several sets, dx, branch, dbranch and dgate, and no sums of "
            "dbranch");
}
void run(CpuQueue&, const LayerNormBackward&);
void run(CudaQueue&, const LayerNormBackward&);

}  // namespace dtn
