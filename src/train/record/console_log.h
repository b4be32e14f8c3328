// Log lines and the progress bar of a run.
#pragma once

#include <cstdint>
#include <string>

#include "core/progress.h"
#include "train/evaluator.h"
#include "train/record/training_clock.h"
#include "train/run_periods.h"
#include "train/step_pipeline.h"

namespace dtn {

class ConsoleLog {
 public:
  // `done` steps of the run are finished. `noun` is the word for samples.
  ConsoleLog(const RunPeriods& periods, std::int64_t done, std::string noun);

  // Writes a line if one is due after this step, and moves the bar.
  void step(std::int64_t step, const StepReport& report, double lr, const TrainingClock& clock);
  void evaluation(std::int64_t step, const std::string& split, const Evaluation& result);
  void evaluation_progress(std::int64_t step, std::int64_t done, std::int64_t total);
  // Prints a message without damaging the bar.
  void info(const std::string& message);
  void warn(const std::string& message);

 private:
  const RunPeriods& periods_;
  std::string noun_;
  ProgressBar bar_;
};

}  // namespace dtn
