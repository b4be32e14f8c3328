#include "apps/analyze/moments.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "dtn/core/parallel.h"
#include "kernels/gemm/gemm.h"

namespace dtn {
namespace {

constexpr std::int64_t kColumnsAtOnce = 32;
constexpr std::int64_t kBlock = 128;  // rows of a symmetric product computed at once

struct EigenPairs {
  std::array<double, 2> values;  // largest first, never below 0
  // Empty if not requested. Unit vectors; the component of largest size (the first of several) is
  // positive.
  std::array<std::vector<double>, 2> vectors;
};

std::vector<double> with_fixed_sign(const Eigen::VectorXd& v) {
  std::vector<double> axis(v.data(), v.data() + v.size());
  const auto largest = std::max_element(
      axis.begin(), axis.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (*largest < 0) {
    for (double& c : axis) c = -c;
  }
  return axis;
}

// Returns the two largest eigenvalues of a positive semidefinite matrix [n, n] float64; for n = 1
// the second one is 0. NaN if the matrix is not finite.
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

}  // namespace

Tensor Columns::shifted(const Tensor& rows) {
  const std::int64_t n = rows.dim(0), width = rows.dim(1);
  const auto size = static_cast<std::size_t>(width);
  const double* in = rows.data<double>();
  if (pivot_.empty()) {
    pivot_.assign(size, 0);
    sums_.assign(size, 0);
    for (std::int64_t i = 0; i < n * width; ++i)
      pivot_[static_cast<std::size_t>(i % width)] += in[i];
    for (double& p : pivot_) p /= static_cast<double>(n);
  }
  Tensor out = Tensor::empty({n, width}, DType::kFloat64);
  parallel_ranges(width, kColumnsAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = begin; c < end; ++c) {
        const auto at = static_cast<std::size_t>(c);
        double& value = out.data<double>()[i * width + c];
        value = in[i * width + c] - pivot_[at];
        sums_[at] += value;
      }
    }
  });
  count_ += static_cast<double>(n);
  return out;
}

void ColumnProduct::add(const Tensor& x, const Tensor& y) {
  const std::int64_t rows = x.dim(0), c = x.dim(1), d = y.dim(1);
  if (!sum_.defined()) sum_ = Tensor::zeros({c, d}, DType::kFloat64);
  Gemm gemm{DType::kFloat64, DType::kFloat64, c, d, rows, x.raw(), y.raw(), sum_.raw(), c, d, d};
  gemm.transpose_a = true;
  gemm.accumulate = true;
  run_on(kCpu, gemm);
}

// Computes blocks of the upper triangle, and mirrors them to the lower one.
void ColumnProduct::add_square(const Tensor& x) {
  const std::int64_t rows = x.dim(0), c = x.dim(1);
  if (!sum_.defined()) sum_ = Tensor::zeros({c, c}, DType::kFloat64);
  double* sum = sum_.data<double>();
  const double* in = x.data<double>();
  for (std::int64_t i = 0; i < c; i += kBlock) {
    const std::int64_t m = std::min(kBlock, c - i);
    Gemm gemm{DType::kFloat64, DType::kFloat64, m, c - i, rows, in + i,
              in + i,          sum + i * c + i, c, c,     c};
    gemm.transpose_a = true;
    gemm.accumulate = true;
    run_on(kCpu, gemm);
  }
  for (std::int64_t i = 0; i < c; ++i) {
    for (std::int64_t j = 0; j < i; ++j) sum[i * c + j] = sum[j * c + i];
  }
}

Tensor ColumnProduct::centred(const Columns& x, const Columns& y) const {
  Tensor result = sum_.clone();
  const std::int64_t width = sum_.dim(1);
  for (std::int64_t i = 0; i < sum_.dim(0); ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      result.data<double>()[i * width + j] -=
          x.sums()[static_cast<std::size_t>(i)] * y.sums()[static_cast<std::size_t>(j)] / x.count();
    }
  }
  return result;
}

double squared_norm(const Tensor& matrix) {
  double sum = 0;
  for (const double v : matrix.values<double>()) sum += v * v;
  return sum;
}

double linear_cka(const Tensor& xy, double xx_norm, double yy_norm) {
  return squared_norm(xy) / (xx_norm * yy_norm);
}

void Covariance::add(const Tensor& rows) {
  const Tensor shifted = columns_.shifted(rows);
  product_.add_square(shifted);
}

PrincipalAxes Covariance::principal(bool axes) const {
  Tensor covariance = product_.centred(columns_, columns_);
  const std::int64_t n = covariance.dim(0);
  double trace = 0;
  for (double& v : std::span(covariance.data<double>(), static_cast<std::size_t>(n * n))) {
    v /= columns_.count();
  }
  for (std::int64_t i = 0; i < n; ++i) trace += covariance.data<double>()[i * n + i];
  const EigenPairs pairs = largest_eigen_pairs(covariance, axes);
  PrincipalAxes result;
  for (std::size_t k = 0; k < 2; ++k) {
    result.explained[k] = pairs.values[k] / trace;
    result.axes[k] = pairs.vectors[k];
  }
  result.spread = std::sqrt(pairs.values[0] + pairs.values[1]);
  for (std::size_t c = 0; axes && c < static_cast<std::size_t>(n); ++c) {
    result.mean.push_back(columns_.pivot()[c] + columns_.sums()[c] / columns_.count());
  }
  return result;
}

}  // namespace dtn
