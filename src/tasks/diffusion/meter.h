// Results of an evaluation of the task diffusion.
#pragma once

#include <vector>

#include "dtn/core/metrics.h"

namespace dtn {

// Means over the samples: `loss`, which is mse + vb, `mse`, the squared error of the predicted
// noise, and `vb`, the variational bound in bits per value; without a learned variance there is no
// bound, and `vb` is NaN. Reads "mse" [n]
// and "vb" [n] float32 of the outputs and, if samples have positions in a data set, "index" [n]
// int64. Values are added in the order of those positions.
class DiffusionMeter final : public Meter {
 public:
  explicit DiffusionMeter(bool learned_variance) : learned_variance_(learned_variance) {}

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override;
  Metrics result() const override;

 private:
  struct Sample {
    std::int64_t index;
    double mse, vb;
  };

  bool learned_variance_;
  std::vector<Sample> samples_;
};

}  // namespace dtn
