// Records of a run for later inspection: pictures of training samples, gradient norms by block,
// lambdas and histograms for TensorBoard. Only the first rank writes them.
#pragma once

#include <optional>

#include "train/log/gradient_log.h"
#include "train/run.h"

namespace dtn {

class RunDiary {
 public:
  RunDiary(Run& run, const TrainerOptions& options);

  // Takes the first batch of this attempt. Writes samples.png unless it exists.
  void begin(const DeviceBatch& batch);
  // Call after step `step`. If wants(step) is true, the gradients must still be those of this step.
  void after_step(std::int64_t step, const StepReport& report);
  // Returns true if this step must be recorded before the next step begins.
  bool wants(std::int64_t step) const;
  // Updates the report. Call after an evaluation or a summary.
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
