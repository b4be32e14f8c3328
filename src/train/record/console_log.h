// Log lines of a run. On a terminal: a table with a row for each epoch, and a bar below it; the
// lines then go only to the log file of the run.
#pragma once

#include <cstdint>
#include <string>

#include "core/progress.h"
#include "train/evaluator.h"
#include "train/record/epoch_table.h"
#include "train/record/training_clock.h"
#include "train/run_periods.h"
#include "train/step_pipeline.h"

namespace dtn {

class ConsoleLog {
 public:
  // `done` steps of the run are finished. `noun` is the word for samples.
  ConsoleLog(const RunPeriods& periods, std::int64_t done, std::string noun);

  // Writes a line if one is due after this step, a row if an epoch ends without an evaluation, and
  // moves the bar.
  void step(std::int64_t step, const StepReport& report, double lr, const TrainingClock& clock);
  void evaluation(std::int64_t step, const std::string& split, const Evaluation& result);
  // Writes the row of the evaluation by which the run is judged.
  void judged(std::int64_t step, const Metrics& metrics, bool best);
  void evaluation_progress(std::int64_t step, std::int64_t done, std::int64_t total);
  // Prints a message without damaging the bar.
  void info(const std::string& message);
  void warn(const std::string& message);

 private:
  void row(std::int64_t step, const Metrics* metrics, bool best);

  const RunPeriods& periods_;
  std::string noun_;
  ProgressBar bar_;
  EpochTable table_;
  double lr_ = 0;  // of the last step
};

}  // namespace dtn
