// Moments of the rows that several ranks have of one batch, made into those of all its rows. What a
// rank found is packed into float64 values that can be gathered as they are; every rank then makes
// the same moments of all of them, in the order of the ranks:
//   n = sum_r n_r
//   mean = sum_r n_r mean_r / n
//   variance = sum_r n_r (variance_r + (mean_r - mean)^2) / n
// by updates that subtract no large numbers from each other (Chan, Golub and LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979).
//
// `dtype`, float32 or float64, is the type of variances. So is it that of means which are the sum
// of two numbers (see channel_norm.h); means that are one number are float64.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

// packed = [mean + mean_rest, variance, rows]
struct PackMoments {
  DType dtype;
  std::int64_t channels;
  std::int64_t rows;      // behind these moments; 0: they are nothing, whatever they hold
  const void* mean;       // [C]
  const void* mean_rest;  // [C]; null: mean is one number
  const void* variance;   // [C], biased
  double* packed;         // [2 C + 1]
};
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
void run(CpuQueue&, const CombineMoments&);
void run(CudaQueue&, const CombineMoments&);

}  // namespace dtn
