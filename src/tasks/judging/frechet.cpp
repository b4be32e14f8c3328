#include "tasks/judging/frechet.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "dtn/core/check.h"

namespace dtn {
namespace {

using Matrix = Eigen::MatrixXd;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix covariance_of(const FeatureMoments& moments) {
  const auto width = static_cast<Eigen::Index>(moments.mean.size());
  return Eigen::Map<const Rows>(moments.covariance.data(), width, width);
}

// Returns the eigenvalues of a positive semidefinite matrix. Rounding may make them negative.
Eigen::VectorXd without_negatives(const Eigen::VectorXd& values) { return values.cwiseMax(0.0); }

// Returns the symmetric square root of a covariance.
Matrix square_root(const Matrix& covariance) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(covariance);
  const Eigen::VectorXd roots = without_negatives(solver.eigenvalues()).cwiseSqrt();
  return solver.eigenvectors() * roots.asDiagonal() * solver.eigenvectors().transpose();
}

// Returns tr((C1 C2)^(1/2)).
double trace_of_root(const Matrix& c1, const Matrix& c2) {
  const Matrix root = square_root(c1);
  const Matrix product = root * c2 * root;
  const Matrix symmetric = 0.5 * (product + product.transpose());
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(symmetric, Eigen::EigenvaluesOnly);
  return without_negatives(solver.eigenvalues()).cwiseSqrt().sum();
}

}  // namespace

FeatureMoments moments_of(const Tensor& rows) {
  DTN_CHECK(rows.rank() == 2 && rows.dtype() == DType::kFloat32, "features ",
            to_string(rows.shape()), " are not [n, F] float32");
  const std::int64_t n = rows.dim(0), width = rows.dim(1);
  if (n < 2) {
    throw DataError(cat("the features of ", n, n == 1 ? " image" : " images",
                        " have no covariance; give at least 2, better more than the ", width,
                        " features"));
  }
  const auto values = rows.values<float>();
  if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
    throw DataError("the judge computed features that are not finite; train it again");
  }
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix x = Eigen::Map<const Floats>(values.data(), n, width).cast<double>();
  const Eigen::RowVectorXd mean = x.colwise().mean();
  x.rowwise() -= mean;
  Matrix covariance = Matrix::Zero(width, width);
  covariance.selfadjointView<Eigen::Lower>().rankUpdate(x.transpose(),
                                                        1 / static_cast<double>(n - 1));
  covariance.triangularView<Eigen::StrictlyUpper>() = covariance.transpose();
  FeatureMoments moments{n, {mean.data(), mean.data() + width}, {}};
  moments.covariance.assign(covariance.data(), covariance.data() + covariance.size());
  return moments;
}

double frechet_distance(const FeatureMoments& a, const FeatureMoments& b) {
  DTN_CHECK(a.mean.size() == b.mean.size(), "features of ", a.mean.size(), " and of ",
            b.mean.size(), " channels");
  double distance = 0;
  for (std::size_t i = 0; i < a.mean.size(); ++i) {
    distance += (a.mean[i] - b.mean[i]) * (a.mean[i] - b.mean[i]);
  }
  const Matrix c1 = covariance_of(a), c2 = covariance_of(b);
  return std::max(0.0, distance + c1.trace() + c2.trace() - 2 * trace_of_root(c1, c2));
}

}  // namespace dtn
