// Mean and standard deviation of numbers that come one by one (Welford).
#pragma once

#include <cmath>
#include <limits>

namespace dtn {

class RunningMean {
 public:
  void add(double value) {
    count_ += 1;
    const double away = value - mean_;
    mean_ += away / count_;
    squares_ += away * (value - mean_);
  }
  // NaN if there are no numbers.
  double mean() const { return count_ > 0 ? mean_ : std::numeric_limits<double>::quiet_NaN(); }
  // Standard deviation of the population.
  double std() const { return std::sqrt(squares_ / count_); }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

}  // namespace dtn
