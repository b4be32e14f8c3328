// Frechet distance between two sets of features, each seen as a normal distribution with the mean m
// and the covariance C of its rows (sums divided by n - 1):
//
//   d = |m1 - m2|^2 + tr(C1) + tr(C2) - 2 tr((C1 C2)^(1/2))
//
// C1 C2 has the eigenvalues of the symmetric matrix C1^(1/2) C2 C1^(1/2), so the last trace is the
// sum of the square roots of its eigenvalues. The distance is 0 for equal distributions. It depends
// on the features and on the number of rows: few rows give a larger value.
#pragma once

#include <cstdint>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// Mean and covariance of a set of features.
struct FeatureMoments {
  std::int64_t count = 0;          // rows
  std::vector<double> mean;        // [F]
  std::vector<double> covariance;  // [F, F], of rank below `count`
};

// Returns the moments of rows [n, F] float32, computed in float64. Throws DataError for fewer than
// 2 rows, which have no covariance, and for values that are not finite.
FeatureMoments moments_of(const Tensor& rows);

// Returns d, never below 0. Both sides must have the same F.
double frechet_distance(const FeatureMoments& a, const FeatureMoments& b);

}  // namespace dtn
