// Reports of a run: metrics.jsonl, TensorBoard events, log lines and a progress bar.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/progress.h"
#include "io/json_lines.h"
#include "io/tensorboard.h"
#include "train/attempts.h"
#include "train/evaluator.h"
#include "train/learner.h"

namespace dtn {

class RunLog {
 public:
  // A silent log only counts; ranks other than the first have it. `resumed_at` is the step at which
  // a resumed run continues. Drops later lines of metrics.jsonl, and evaluations after
  // `evaluated_step`, which are still to be done. `noun` is the word for samples.
  RunLog(const std::filesystem::path& output, bool silent, std::optional<std::int64_t> resumed_at,
         std::int64_t evaluated_step, std::int64_t total_steps, std::int64_t steps_per_epoch,
         std::string noun);

  // `step` counts finished steps, including this one.
  void train_step(std::int64_t step, const StepReport& report, double lr, std::int64_t samples,
                  double data_wait_seconds, bool write);
  void evaluation(std::int64_t step, const std::string& split, const Evaluation& result);
  // Prints a message without damaging the bar.
  void info(const std::string& message);
  void warn(const std::string& message);
  void evaluation_progress(std::int64_t done, std::int64_t total);
  // Makes the log durable. Call before a checkpoint records the step.
  void sync();

  // Returns the writer for other TensorBoard events; null for a silent log.
  EventWriter* events() { return out_ ? &out_->events : nullptr; }

  // Returns the training time of this attempt of the run so far.
  TrainingTime training() const { return training_; }
  // Call around evaluations and checkpoints, whose time does not count in rates.
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
  std::int64_t step_;             // finished steps
  std::int64_t total_steps_, steps_per_epoch_;
  std::chrono::steady_clock::time_point mark_;
  TrainingTime training_;
  double window_seconds_ = 0, window_wait_ = 0, last_wait_ = 0;
  double window_idle_ = 0;
  std::int64_t window_samples_ = 0;
  std::string noun_;  // the word for samples
};

}  // namespace dtn
