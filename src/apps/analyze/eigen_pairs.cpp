#include "apps/analyze/eigen_pairs.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

namespace dtn {
namespace {

std::vector<double> with_fixed_sign(const Eigen::VectorXd& v) {
  std::vector<double> axis(v.data(), v.data() + v.size());
  const auto largest = std::max_element(
      axis.begin(), axis.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (*largest < 0) {
    for (double& c : axis) c = -c;
  }
  return axis;
}

}  // namespace

EigenPairs largest_eigen_pairs(const Tensor& matrix, bool vectors) {
  const auto n = static_cast<Eigen::Index>(matrix.dim(0));
  EigenPairs pairs{{0, 0}, {}};
  if (vectors) pairs.vectors.fill(std::vector<double>(static_cast<std::size_t>(n)));
  using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd symmetric = Eigen::Map<const Square>(matrix.data<double>(), n, n);
  if (!symmetric.allFinite()) {
    pairs.values.fill(std::numeric_limits<double>::quiet_NaN());
    for (auto& v : pairs.vectors) std::ranges::fill(v, pairs.values[0]);
    return pairs;
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      symmetric, vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  for (Eigen::Index k = 0; k < std::min<Eigen::Index>(2, n); ++k) {
    const auto at = static_cast<std::size_t>(k);
    pairs.values[at] = std::max(0.0, solver.eigenvalues()[n - 1 - k]);
    if (vectors) pairs.vectors[at] = with_fixed_sign(solver.eigenvectors().col(n - 1 - k));
  }
  return pairs;
}

}  // namespace dtn
