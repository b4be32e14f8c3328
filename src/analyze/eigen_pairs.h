// Eigenvalues of symmetric matrices, for which Eigen is behind this door.
#pragma once

#include <array>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

struct EigenPairs {
  std::array<double, 2> values;  // the largest first, none below 0
  // Empty where they are not wanted. Of length 1; the component of largest size, the first of several, is positive.
  std::array<std::vector<double>, 2> vectors;
};

// Of a positive semidefinite matrix [n, n] float64; a second one of n = 1 is 0. NaN where the matrix
// is not finite.
EigenPairs largest_eigen_pairs(const Tensor& matrix, bool vectors);

}  // namespace dtn
