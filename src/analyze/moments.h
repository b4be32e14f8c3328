// Products of tall matrices whose rows come batch by batch, in float64, and what is made of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// The columns of a matrix [n, C], whose rows come in batches. They are shifted by their means in the
// first batch, so that centring them in the end cancels little.
class Columns {
 public:
  // rows [n, C] float64 -> the same, shifted.
  Tensor shifted(const Tensor& rows);

  double count() const { return count_; }
  const std::vector<double>& pivot() const { return pivot_; }
  const std::vector<double>& sums() const { return sums_; }  // of what was shifted

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
  // The same of centred columns, [C, D].
  Tensor centred(const Columns& x, const Columns& y) const;

 private:
  Tensor sum_;
};

// Sum of squares.
double squared_norm(const Tensor& matrix);

// The two axes along which rows spread the most.
struct PrincipalAxes {
  std::array<double, 2> explained;  // shares of the variance
  double spread;                    // root of the sum of both variances
  std::vector<double> axes[2];      // unit vectors, the component of largest size positive
  std::vector<double> mean;         // of the rows
};

// The covariance of rows that come in batches.
class Covariance {
 public:
  void add(const Tensor& rows);
  // NaN where a row was not finite. Without `axes` those and the mean are empty, for less work.
  PrincipalAxes principal(bool axes) const;

 private:
  Columns columns_;
  ColumnProduct product_;
};

// tr(K L) / sqrt(tr(K K) tr(L L)) of the linear kernels, from norms of products of centred columns:
// |X^T Y|^2 / (|X^T X| |Y^T Y|).
double linear_cka(const Tensor& xy, double xx_norm, double yy_norm);

}  // namespace dtn
