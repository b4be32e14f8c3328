// Products of tall matrices whose rows come batch by batch, in float64, and statistics from them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// Columns of a matrix [n, C] whose rows come in batches. The columns are shifted by their means in
// the first batch, so that centring them at the end cancels few digits.
class Columns {
 public:
  // Returns rows [n, C] float64, shifted.
  Tensor shifted(const Tensor& rows);

  double count() const { return count_; }
  const std::vector<double>& pivot() const { return pivot_; }
  const std::vector<double>& sums() const { return sums_; }  // of the shifted columns

 private:
  double count_ = 0;
  std::vector<double> pivot_, sums_;
};

// X^T Y of shifted rows.
class ColumnProduct {
 public:
  void add(const Tensor& x, const Tensor& y);
  // X^T X.
  void add_square(const Tensor& x);
  // Returns the product of the centred columns, [C, D].
  Tensor centred(const Columns& x, const Columns& y) const;

 private:
  Tensor sum_;
};

// Returns the sum of squares.
double squared_norm(const Tensor& matrix);

// The two axes along which rows vary most.
struct PrincipalAxes {
  std::array<double, 2> explained;          // shares of the variance
  double spread;                            // root of the sum of both variances
  std::array<std::vector<double>, 2> axes;  // unit; the component of largest size is positive
  std::vector<double> mean;                 // of the rows
};

// Covariance of rows that come in batches.
class Covariance {
 public:
  void add(const Tensor& rows);
  // NaN if a row was not finite. Without `axes`, the axes and the mean stay empty, which saves
  // work.
  PrincipalAxes principal(bool axes) const;

 private:
  Columns columns_;
  ColumnProduct product_;
};

// Returns linear CKA, from norms of products of centred columns:
//    tr(K L) / sqrt(tr(K K) tr(L L)) = |X^T Y|^2 / (|X^T X| |Y^T Y|)
// with the linear kernels K and L.
double linear_cka(const Tensor& xy, double xx_norm, double yy_norm);

}  // namespace dtn
