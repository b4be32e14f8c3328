// Results of an evaluation of the task diffusion.
#pragma once

#include "dtn/core/metrics.h"
#include "tasks/sample_figures.h"

namespace dtn {

// Means over the samples: `loss`, which is mse + vb, `mse`, the squared error of the predicted
// noise, and `vb`, the variational bound in bits per value; without a learned variance there is no
// bound, and `vb` is NaN. Reads "mse" [n] and "vb" [n] float32 of the outputs and, if samples have
// positions in a data set, "index" [n] int64.
class DiffusionMeter final : public Meter {
 public:
  explicit DiffusionMeter(bool learned_variance) : learned_variance_(learned_variance) {}

  void add(const Fields& batch, const Fields& outputs) override;
  void merge(Communicator& ranks) override { samples_.merge(ranks); }
  Metrics result() const override;

 private:
  bool learned_variance_;
  SampleFigures samples_{2};  // mse, vb
};

}  // namespace dtn
