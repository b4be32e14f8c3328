// Table of a run for a terminal of 80 columns: a row for each epoch or evaluation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "dtn/core/metrics.h"
#include "train/record/training_clock.h"
#include "train/run_periods.h"

namespace dtn {

// One column of a row: the figure by which runs are judged, as the text of an evaluation has it.
struct ShownFigure {
  std::string name, value;  // "top-1", "87.83 %"
};

// Splits the first figure of Metrics::text; empty if it is the loss or has no number.
ShownFigure first_figure(const std::string& metrics_text);

class EpochTable {
 public:
  explicit EpochTable(const RunPeriods& periods, std::string noun);

  // Counts the loss of a step. The row has the mean since the row before.
  void add(double loss, const TrainingClock& clock);

  // Returns the row after `step`, behind the names of the columns for the first row and when the
  // figure changes. `metrics`: the evaluation at this step, or null. `best`: it is the best so far,
  // which a star marks, in green if `in_color`. Returns an empty text for an evaluation within a
  // second of the one before, and for an epoch without an evaluation within ten seconds of any row,
  // so that short epochs do not flood the terminal. The last step always has a row.
  std::string row(std::int64_t step, double lr, const Metrics* metrics, bool best,
                  const std::string& time_left, bool in_color);

 private:
  using Clock = std::chrono::steady_clock;

  std::string header() const;
  bool comes_too_soon(bool evaluated) const;

  const RunPeriods& periods_;
  std::string noun_;
  std::string figure_;  // name of the column; empty: none
  bool begun_ = false;
  Clock::time_point last_row_ = Clock::now();
  std::optional<Clock::time_point> last_evaluation_;
  double loss_sum_ = 0;
  std::int64_t losses_ = 0;
  TrainingTime now_, at_last_row_;
};

}  // namespace dtn
