// Speed of a training run: time and samples of all steps of this attempt, and of the steps since
// the last log line.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "train/record/attempts_file.h"

namespace dtn {

class TrainingClock {
 public:
  explicit TrainingClock(std::int64_t samples_per_step) : samples_per_step_(samples_per_step) {}

  // Evaluations and checkpoints do not count: call pause() before and resume() after them.
  void pause() {
    const Clock::time_point now = Clock::now();
    const double passed = std::chrono::duration<double>(now - mark_).count();
    total_.seconds += passed;
    window_.seconds += passed;
    mark_ = now;
  }
  void resume() { mark_ = Clock::now(); }

  // `data_wait` is the time in seconds that the run has waited for samples so far. A CUDA device
  // computes while the host waits for data, so there only `idle`, its idle time, counts.
  void add_step(double data_wait, std::optional<double> idle) {
    pause();
    total_.samples += samples_per_step_;
    window_.samples += samples_per_step_;
    window_waited_ += idle.value_or(data_wait - data_wait_);
    data_wait_ = data_wait;
  }

  const TrainingTime& total() const { return total_; }
  // Rate and share of waiting since start_window().
  double samples_per_second() const { return window_.samples_per_second(); }
  double percent_waited() const {
    return window_.seconds > 0 ? 100 * window_waited_ / window_.seconds : 0;
  }
  void start_window() {
    window_ = {};
    window_waited_ = 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t samples_per_step_;
  Clock::time_point mark_ = Clock::now();
  TrainingTime total_, window_;
  double window_waited_ = 0, data_wait_ = 0;
};

}  // namespace dtn
