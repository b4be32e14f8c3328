// Eigenvalues of symmetric matrices. Keeps Eigen out of the header.
#pragma once

#include <array>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

struct EigenPairs {
  std::array<double, 2> values;  // largest first, never below 0
  // Empty if not requested. Unit vectors; the component of largest size (the first of several) is
  // positive.
  std::array<std::vector<double>, 2> vectors;
};

// Returns the two largest eigenvalues of a positive semidefinite matrix [n, n] float64; for n = 1
// the second one is 0. NaN if the matrix is not finite.
EigenPairs largest_eigen_pairs(const Tensor& matrix, bool vectors);

}  // namespace dtn
