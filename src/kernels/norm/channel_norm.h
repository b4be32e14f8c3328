// Normalization along the rows. Each set of rows has one mean and one variance for each channel, or
// for each group of consecutive channels:
//
//    x [S sets, R rows, C channels], G groups of D = C / G consecutive channels
//    y[s, r, c] = weight[c] (x[s, r, c] - mean[s, g]) (variance[s, g] + eps)^-1/2 + bias[c]
// or max(y, 0) with `relu`.
//
// The mean and the variance are over the R rows and the D channels of group g = c / D. InstanceNorm
// has S = B, R = T, G = C. GroupNorm has S = B, R = T and its groups. BatchNorm has S = 1, R = B T,
// G = C.
//
// Each direction has two parts that can run separately. A job of several processes combines the
// results of the first part: the statistics (forward) or the sums (backward). kApplication alone
// normalizes with given statistics, such as BatchNorm's running statistics.
//
// x, y and activation gradients have `dtype`. Parameters, statistics, sums and parameter gradients
// have the accumulator type (float32; float64 for float64). Activation gradients are overwritten
// (=), parameter gradients are accumulated (+=). Sums over rows are split into parts that depend
// only on the shape, so results do not depend on the number of threads.
//
// References: Ioffe and Szegedy, "Batch normalization", 2015; Ulyanov et al., "Instance
// normalization", 2016; Wu and He, "Group normalization", 2018.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

enum class ChannelNormPart {
  kWhole,
  kStatistics,   // forward: mean and variance. Backward: the sums and the parameter gradients
  kApplication,  // forward: y, from given statistics. Backward: dx, from given sums
};

// Arguments of both directions.
struct ChannelNormArguments {
  DType dtype;
  ChannelNormPart part = ChannelNormPart::kWhole;
  std::int64_t sets, rows, channels;
  std::int64_t groups;  // divides channels
  double eps;
  // Divides the sum of squares by R D - 1 instead of R D (by 1 if that is 0).
  bool unbiased = false;
  const void* x;                      // [S, R, C]
  const void* weight = nullptr;       // [C], or [C] for each set; null: 1
  const void* bias = nullptr;         // as weight; null: 0. Backward it is read with `relu` alone
  std::int64_t parameter_stride = 0;  // elements between the weights (biases) of two sets
  bool relu = false;

  bool is_empty() const { return sets == 0 || rows == 0 || channels == 0; }
};

struct ChannelNormForward : ChannelNormArguments {
  void* y = nullptr;  // [S, R, C]; may be x
  // Outputs; kApplication reads them instead. The exact mean is mean + mean_rest: `mean` is rounded
  // and mean_rest is the remainder. So x - mean keeps its digits when the mean is much larger than
  // the standard deviation.
  void* mean;                 // [S, G]
  void* mean_rest = nullptr;  // [S, G]; kApplication: null means 0
  void* variance;             // [S, G]; without eps
};
void run(CpuQueue&, const ChannelNormForward&);
void run(CudaQueue&, const ChannelNormForward&);

//    xhat = (x - mean) rstd,   rstd = (variance + eps)^-1/2,   dxhat = dy weight,   N = R D
//    sums[s, 0, c] = sum_r dy,   sums[s, 1, c] = sum_r dy xhat
//    dbias += sums[., 0, .],   dweight += sums[., 1, .],   over all sets, or set by set
//    dx = rstd (dxhat - sum_g(dxhat) / N - xhat sum_g(dxhat xhat) / N') + dx_add
// sum_g is over the rows and the channels of the group. N' is N, or N - 1 (at least 1) for the
// unbiased variance. Frozen statistics do not depend on x, so dx = rstd dxhat + dx_add. With
// `relu`, dy counts as 0 where y is not above 0, which follows from x.
struct ChannelNormBackward : ChannelNormArguments {
  bool frozen = false;
  // Number of rows in the sums, if these cover several sets or processes; 0: `rows`.
  std::int64_t total_rows = 0;
  const void* mean;                 // [S, G]
  const void* mean_rest = nullptr;  // [S, G]; null: 0
  const void* variance;             // [S, G]
  const void* dy;                   // [S, R, C]
  // [S, 2, C]: written by kStatistics, read by kApplication unless frozen. kWhole: may be null.
  void* sums = nullptr;
  // kApplication, groups of one channel: the sums are already those of dxhat and dxhat xhat. Sets
  // that share their statistics but have different weights can then share the sums, too.
  bool weighted_sums = false;
  const void* dx_add = nullptr;  // [S, R, C] dtype: gradient from the residual; may be dx
  void* dx = nullptr;            // [S, R, C], =; may be dy; null: not computed
  void* dweight = nullptr;       // [C], or [S, C] with a parameter stride of C; +=
  void* dbias = nullptr;         // as dweight
};
void run(CpuQueue&, const ChannelNormBackward&);
void run(CudaQueue&, const ChannelNormBackward&);

// Moves running statistics towards those of a batch of `rows` rows, as PyTorch's BatchNorm does:
//    next_mean += momentum (mean + mean_rest - next_mean)
//    next_variance += momentum (rows / (rows - 1) variance - next_variance)
// If rows is 1, 1 takes the place of rows - 1. All arrays are [C] of `dtype`, float32 or float64.
struct MoveRunningStatistics {
  DType dtype;
  std::int64_t channels, rows;
  double momentum;
  const void* mean;
  const void* mean_rest;
  const void* variance;
  void* next_mean;
  void* next_variance;
};
void run(CpuQueue&, const MoveRunningStatistics&);
void run(CudaQueue&, const MoveRunningStatistics&);

}  // namespace dtn
