// Everything a run reports: metrics.jsonl, TensorBoard events, lines and a progress bar.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/json_lines.h"
#include "io/tensorboard.h"
#include "train/evaluator.h"
#include "train/learner.h"
#include "train/legs.h"
#include "train/progress.h"

namespace dtn {

class RunLog {
 public:
  // A silent one only counts: that of the ranks other than the first.
  // `resumed_at`: the step a resumed run goes on from; later lines of metrics.jsonl are dropped,
  // and evaluations after `evaluated_step`, which are still to be done. `noun` is what samples are
  // called.
  RunLog(const std::filesystem::path& output, bool silent, std::optional<std::int64_t> resumed_at,
         std::int64_t evaluated_step, std::int64_t total_steps, std::int64_t steps_per_epoch,
         std::string noun);

  // `step` counts finished steps, this one included.
  void train_step(std::int64_t step, const StepReport& report, double lr, std::int64_t samples,
                  double data_wait_seconds, bool write);
  void evaluation(std::int64_t step, const std::string& split, const Evaluation& result);
  // A message that does not disturb the bar.
  void info(const std::string& message);
  void warn(const std::string& message);
  void evaluation_progress(std::int64_t done, std::int64_t total);
  // Makes what was logged durable; call it before a checkpoint says that the step happened.
  void sync();

  // Where to add what else there is for TensorBoard; null: a silent log.
  EventWriter* events() { return out_ ? &out_->events : nullptr; }

  // What this leg of the run has trained so far.
  TrainingTime training() const { return training_; }
  // Evaluations and checkpoints: their time is left out of rates.
  void pause();
  void resume();

 private:
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
  }

  void report_step(std::int64_t step, const StepReport& report, double lr,
                   const std::string& detail, double rate);

  struct Outputs {
    JsonLinesWriter metrics;
    EventWriter events;
    ProgressBar bar;
  };
  std::unique_ptr<Outputs> out_;  // null: silent
  std::int64_t step_;             // finished
  std::int64_t total_steps_, steps_per_epoch_;
  std::chrono::steady_clock::time_point mark_;
  TrainingTime training_;
  double window_seconds_ = 0, window_wait_ = 0, last_wait_ = 0;
  double window_idle_ = 0;
  std::int64_t window_samples_ = 0;
  std::string noun_;  // of samples
};

}  // namespace dtn
