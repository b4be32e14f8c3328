// What a run keeps for those who look at it later: pictures of what it learns from, gradient norms
// by block, lambdas and histograms for TensorBoard. All of it is of the first rank.
#pragma once

#include <optional>

#include "train/log/gradient_log.h"
#include "train/run.h"

namespace dtn {

class RunDiary {
 public:
  RunDiary(Run& run, const TrainerOptions& options);

  // The first batch of this leg of the run; keeps samples.png where there is none yet.
  void begin(const DeviceBatch& batch);
  // Step `step` is done and its gradients are at hand, as they are whenever wants() says so.
  void after_step(std::int64_t step, const StepReport& report);
  // Whether this step has something to look at before the next begins.
  bool wants(std::int64_t step) const;
  // An evaluation has been logged, or the run has been summed up.
  void renew_report();
  void sync();

 private:
  void add_lambdas(std::int64_t step);
  void add_histograms(std::int64_t step);

  Run& run_;
  const TrainerOptions& options_;
  std::optional<GradientLog> gradients_;
  bool begun_ = false;
  bool report_failed_ = false;
};

}  // namespace dtn
