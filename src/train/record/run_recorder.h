// All files and log lines that a run writes while it goes, except checkpoints.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/feed/loader.h"
#include "train/record/console_log.h"
#include "train/record/gradient_norms_writer.h"
#include "train/record/lambdas_writer.h"
#include "train/record/metrics_writer.h"
#include "train/record/run_summary.h"
#include "train/record/warnings_writer.h"
#include "train/trainer.h"

namespace dtn {

// Every rank has a recorder and makes the same calls. Only that of the first rank writes; the
// others do nothing. Steps are those of `progress` at the time of a call.
class RunRecorder {
 public:
  // Writes config.yaml, begins an attempt and opens the other files. Drops lines of steps after
  // `progress`. `noun` is the word for samples. The arguments must outlive the recorder.
  RunRecorder(const ExperimentConfig& config, const TrainerOptions& options, Learner& learner,
              const RunProgress& progress, const RunPeriods& periods, const std::string& noun,
              const Communicator& ranks);

  // Call before the first step, unless the run is finished. Begins train.log.
  void begin();
  // Writes the lists of the files of both splits if data.split makes them; see split_lists.h. Call
  // after begin(). Warns if lists of a resumed run have changed. `validation` may be null.
  void splits(const SampleSource& training, const SampleSource* validation);
  // Takes a batch before its step. Writes samples.png from the first batch, unless it exists.
  void batch(const DeviceBatch& batch);
  // Records a finished step: what is due of log line, metrics, warnings, lambdas, gradients and
  // histograms. If RunPeriods::needs_state_of() this step, weights and gradients must still be
  // those of this step. `data_wait` is the time in seconds that the run has waited for samples so
  // far.
  void step(const StepReport& report, double lr, double data_wait);
  // Writes the lambdas of DTN to norms.jsonl.
  void lambdas();
  // `judged`: the one that train.best names; `best`: it is the best so far.
  void evaluations(const Evaluations& results, const Evaluation& judged, bool best);
  // Takes the meter of an evaluation of the weights. If it compares samples with references, writes
  // neighbors.png and neighbors.json.
  void neighbors(const Meter& meter, const SampleSource& evaluated, const SampleSource* references);
  // Takes the meter of the best evaluation so far. If it detects objects, writes detections.json
  // and its pictures; see detections_writer.h.
  void detections(const Meter& meter, const SampleSource& evaluated);
  // Writes a picture that the task has drawn; see step_pictures.h.
  void picture(const Image& image);
  void evaluation_progress(std::int64_t done, std::int64_t total) {
    if (parts_) parts_->console.evaluation_progress(progress_.step, done, total);
  }
  void info(const std::string& message) {
    if (parts_) parts_->console.info(message);
  }
  void warn(const std::string& message) {
    if (parts_) parts_->console.warn(message);
  }

  // Call around evaluations and checkpoints, whose time does not count in rates.
  void pause() { clock_.pause(); }
  void resume() { clock_.resume(); }

  // Makes all lines durable, and records the attempt: a kill after it does not lose its training
  // time. Call before a checkpoint is written.
  void sync();
  // Updates the report. Call after an evaluation or a picture.
  void update_report();

  // Returns true if the run finished at this step and has its summary.
  bool is_summarized() const { return parts_ && has_summary(options_.output, progress_.step); }
  // Write the summary of a run that finished or diverged, and the report.
  void finish(const Evaluations& last, const LoaderReport& data);
  void diverge(const Evaluations& last, const Retreat& retreat);

 private:
  struct Parts {
    AttemptsFile attempts;
    MetricsWriter metrics;
    ConsoleLog console;
    GradientNormsWriter gradients;
    WarningsWriter warnings;
    std::optional<LambdasWriter> lambdas;  // set with train.log_norms
  };

  RunResults results(const Evaluations& last) const;
  RunLength length() const;
  void look_for_problems(std::int64_t step);
  void look_for_problems_in(const Metrics& metrics);
  void log_times(const LoaderReport& data);

  const ExperimentConfig& config_;
  const TrainerOptions& options_;
  Learner& learner_;
  const RunProgress& progress_;
  const RunPeriods& periods_;
  std::string noun_;
  TrainingClock clock_;
  std::unique_ptr<Parts> parts_;  // null on ranks other than the first
  bool begun_ = false;            // a batch has been taken
  bool report_failed_ = false, pictures_failed_ = false;
};

}  // namespace dtn
