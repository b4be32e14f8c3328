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
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"

namespace dtn {

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
