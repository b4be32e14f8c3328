// Moments of channels: as inputs of further operations, with the conversion of their gradients into
// sums for ChannelNormBackward, and combined over several ranks. `dtype` is float32 or float64.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/host_device.h"

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

// Combines the moments of the rows that several ranks have of one batch into the moments of all
// rows. Each rank packs its moments into float64 values, which can be gathered as they are. Every
// rank then computes the same result from all of them, in rank order:
//    n = sum_r n_r
//    mean = sum_r n_r mean_r / n
//    variance = sum_r n_r (variance_r + (mean_r - mean)^2) / n
// The update formulas do not subtract large numbers from each other (Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
//
// Variances have `dtype`, float32 or float64. Means that are the sum of two numbers (see
// channel_norm.h) have `dtype`, too. Means that are one number are float64.

//    packed = [mean + mean_rest, variance, rows]
struct PackMoments {
  DType dtype;
  std::int64_t channels;
  std::int64_t rows;      // of these moments; 0: the moments are ignored
  const void* mean;       // [C]
  const void* mean_rest;  // [C]; null: mean is one number
  const void* variance;   // [C], biased
  double* packed;         // [2 C + 1]
};
// Packs one channel. Static, because every instruction set and device compiles a separate copy.
template <class A>
DTN_HOST_DEVICE static inline void pack_channel(const PackMoments& args, std::int64_t c) {
  const A* mean = static_cast<const A*>(args.mean);
  const A* rest = static_cast<const A*>(args.mean_rest);
  args.packed[c] = rest ? static_cast<double>(mean[c]) + static_cast<double>(rest[c])
                        : static_cast<const double*>(args.mean)[c];
  args.packed[args.channels + c] = static_cast<double>(static_cast<const A*>(args.variance)[c]);
  if (c == 0) args.packed[2 * args.channels] = static_cast<double>(args.rows);
}
void run(CpuQueue&, const PackMoments&);
void run(CudaQueue&, const PackMoments&);

struct CombineMoments {
  DType dtype;
  std::int64_t channels, ranks;
  const double* packed;  // [ranks, 2 C + 1]
  void* mean;            // [C]
  void* mean_rest;       // [C]; null: mean is one number
  void* variance;        // [C]
};
// Combines the moments of one channel.
template <class A>
DTN_HOST_DEVICE static inline void combine_channel(const CombineMoments& args, std::int64_t c) {
  const std::int64_t channels = args.channels;
  double rows = 0, mean = 0, squares = 0;
  for (std::int64_t r = 0; r < args.ranks; ++r) {
    const double* of_rank = args.packed + r * (2 * channels + 1);
    const double more = of_rank[2 * channels], apart = of_rank[c] - mean;
    if (more == 0) continue;
    const double share = more / (rows + more);
    mean += apart * share;
    squares += more * of_rank[channels + c] + apart * apart * (rows * share);
    rows += more;
  }
  static_cast<A*>(args.variance)[c] = static_cast<A>(squares / rows);
  if (args.mean_rest) {
    const A nearest = static_cast<A>(mean);
    static_cast<A*>(args.mean)[c] = nearest;
    static_cast<A*>(args.mean_rest)[c] = static_cast<A>(mean - static_cast<double>(nearest));
  } else {
    static_cast<double*>(args.mean)[c] = mean;
  }
}
void run(CpuQueue&, const CombineMoments&);
void run(CudaQueue&, const CombineMoments&);

}  // namespace dtn
