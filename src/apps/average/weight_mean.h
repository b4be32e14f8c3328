// Mean of the weights of several models with the same parameters.
#pragma once

#include <vector>

#include "dtn/core/tensor.h"

namespace dtn::app {

// Sums in float64, so that the mean of equal values is that value to the bit.
class WeightMean {
 public:
  // Adds weights, float32 on the CPU, with a share that is positive. All weights must have the same
  // number of elements.
  void add(const Tensor& weights, double share = 1);
  // The sum divided by the sum of the shares, float32. Only after add().
  Tensor result() const;
  // The mean that results from one more add().
  Tensor with(const Tensor& weights, double share = 1) const;

 private:
  std::vector<double> sum_;
  double shares_ = 0;
};

}  // namespace dtn::app
