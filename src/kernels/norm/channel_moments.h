// The moments of channels as numbers that something else is computed from, and what their gradients
// are to ChannelNormBackward. All values have `dtype`, float32 or float64.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

//   moments[0] = mean + mean_rest
//   moments[1] = sqrt(variance + eps)
struct ChannelMomentsForward {
  DType dtype;
  std::int64_t count;
  double eps;
  const void* mean;       // [count], with mean_rest and variance as ChannelNormForward gives them
  const void* mean_rest;  // [count]
  const void* variance;   // [count]
  void* moments;          // [2, count]
};
void run(CpuQueue&, const ChannelMomentsForward&);
void run(CudaQueue&, const ChannelMomentsForward&);

// The sums with which ChannelNormBackward makes the gradient of x from those of the moments, where
// no other gradient reaches x: sums[s, 0] = -dmean std, sums[s, 1] = -dstd std.
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

// Sets that share their statistics, but not their gains: of the sums of dy and dy xhat of each, the
// sums of dxhat = dy weight and dxhat xhat over all sets, added in order and given to each.
struct ShareSums {
  DType dtype;
  std::int64_t sets, channels;
  const void* weight;          // [S, C]
  std::int64_t weight_stride;  // from one set's to the next's
  const void* sums;            // [S, 2, C]
  void* shared;                // [S, 2, C]
};
void run(CpuQueue&, const ShareSums&);
void run(CudaQueue&, const ShareSums&);

}  // namespace dtn
