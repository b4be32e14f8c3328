// Moments of channels as inputs of further operations, and the conversion of their gradients into
// sums for ChannelNormBackward. All values have `dtype`, float32 or float64.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

//    moments[0] = mean + mean_rest
//    moments[1] = sqrt(variance + eps)
struct ChannelMomentsForward {
  DType dtype;
  std::int64_t count;
  double eps;
  const void* mean;       // [count]; mean, mean_rest and variance as ChannelNormForward writes them
  const void* mean_rest;  // [count]
  const void* variance;   // [count]
  void* moments;          // [2, count]
};
void run(CpuQueue&, const ChannelMomentsForward&);
void run(CudaQueue&, const ChannelMomentsForward&);

// Computes the sums from which ChannelNormBackward, with dy = 0, computes the gradient of x:
//    sums[s, 0] = -dmean std,   sums[s, 1] = -dstd std
struct ChannelMomentsBackward {
  DType dtype;
  std::int64_t sets, channels;
  const void* std;    // [S, C]
  const void* dmean;  // [S, C]; null: 0
  const void* dstd;   // [S, C]; null: 0
  void* sums;         // [S, 2, C]
};
void run(CpuQueue&, const ChannelMomentsBackward&);
void run(CudaQueue&, const ChannelMomentsBackward&);

// For sets that share their statistics but have different weights. From the sums of dy and dy xhat
// of each set, computes the sums of dxhat = dy weight and dxhat xhat over all sets. Adds the sets
// in order and writes the total to every set.
struct ShareSums {
  DType dtype;
  std::int64_t sets, channels;
  const void* weight;          // [S, C]
  std::int64_t weight_stride;  // elements between the weights of two sets
  const void* sums;            // [S, 2, C]
  void* shared;                // [S, 2, C]
};
void run(CpuQueue&, const ShareSums&);
void run(CudaQueue&, const ShareSums&);

}  // namespace dtn
