#include "train/trainer.h"

#include <deque>

#include "core/format.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "train/checkpoint.h"
#include "train/checkpoints/run_checkpoints.h"
#include "train/log/norm_log.h"
#include "train/log/run_diary.h"
#include "train/log/run_summary.h"
#include "train/rank_consistency.h"
#include "train/run.h"
#include "train/validation.h"

namespace dtn {
namespace {

constexpr std::int64_t kBadStepsBeforeStop = 3;

class Trainer {
 public:
  // Resets `starting` after the first step.
  Trainer(Run& run, const TrainerOptions& options, std::optional<Communicator::Work>& starting)
      : run_(run),
        progress_(run.progress),
        log_(*run.log),
        validation_(run),
        diary_(run, options),
        starting_(starting) {
    if (!run.ranks.is_root()) return;
    checkpoints_.emplace(run, options.resume_from);
    if (!run.config.train.log_norms) return;
    norms_.emplace(run.output, run.task->backbone(), run.learner.parameters(), run.resumed_at);
  }

  RunStatus train() {
    const bool over = is_summarized();
    if (run_.ranks.is_root() && !over) {
      log_to_file((run_.output / "train.log").string());
      remove_diverged_summary(run_.output);
    }
    // The run diverged in its last steps, under an earlier version. It cannot recover, because no
    // step is left.
    if (started() >= total_steps() && progress_.bad_steps >= kBadStepsBeforeStop) {
      diverge(bad_steps());
    }
    if (!finish_interrupted_evaluation()) return stop();
    if (over) {
      log_.info(over_text());
      return RunStatus::kFinished;
    }
    begin_norms();
    while (started() < total_steps()) {
      run_.train->feeder().start(started() / run_.steps_per_epoch,
                                 started() % run_.steps_per_epoch);
      while (started() < total_steps() && next_batch()) {
        diary_.begin(batch_);
        if (!one_step() || all_stop()) return stop();
      }
    }
    finish();
    return RunStatus::kFinished;
  }

 private:
  std::int64_t total_steps() const { return run_.rate.total_steps(); }
  std::int64_t started() const {
    return progress_.step + static_cast<std::int64_t>(in_flight_.size());
  }

  std::string over_text() const {
    const ScheduleConfig& schedule = run_.config.schedule;
    const char* key = schedule.steps ? "schedule.steps" : "schedule.epochs";
    return cat("the run is already finished, at step ", total_steps(), " (", key, " is ",
               schedule.steps ? *schedule.steps : *schedule.epochs,
               "); to continue the training, resume it with a larger ", key, " (--set ", key,
               "=N)");
  }

  // Returns true if a signal has reached any rank.
  bool all_stop() { return stopping_ = run_.ranks.any(stop_requested()); }

  // Logs the lambdas and saves the weights at the start of a run. dtn-analyze compares the end of
  // the run with them.
  void begin_norms() {
    if (!run_.config.train.log_norms || run_.resumed_at) return;
    log_norms();
    save();
    log_.resume();
  }

  void log_norms() {
    const double step = static_cast<double>(progress_.step);
    if (norms_) norms_->write(progress_.step, step / static_cast<double>(run_.steps_per_epoch));
  }

  bool next_batch() {
    Communicator::Work waiting(run_.ranks, "waiting for samples");
    return run_.train->feeder().next(batch_);
  }

  // Starts one step on the current batch, and completes earlier steps. A CUDA device computes the
  // newest step while the host completes the previous step, so the loss is read one step late. If
  // something is due after the new step, completes it at once. Returns false if a signal arrived.
  bool one_step() {
    const double lr = run_.rate.at(started());
    run_.learner.start_step(batch_.fields, started(), lr);
    in_flight_.push_back({lr, run_.ranks.is_single() ? batch_.n : run_.config.train.batch_size});
    bool now = run_.learner.device() == kCpu || diary_.wants(started()) ||
               run_.norms_due(started()) || stopping_ ||
               run_.due(run_.config.train.checkpoint_every, started()) || progress_.bad_steps > 0;
    while (in_flight_.size() > (now ? 0 : Learner::kInFlight - 1)) {
      if (!complete_step()) return false;
      now = now || progress_.bad_steps > 0;
    }
    return true;
  }

  // Takes the report of the oldest step in flight and does what is due after that step. Returns
  // false if a signal arrived during an evaluation.
  bool complete_step() {
    const StepReport report = run_.learner.finish_step();
    const auto [lr, samples] = in_flight_.front();
    in_flight_.pop_front();
    starting_.reset();
    const std::int64_t step = ++progress_.step;
    const bool last = step == total_steps();
    log_.train_step(step, report, lr, samples, run_.train->feeder().report().wait_seconds,
                    run_.due(run_.config.train.log_every, step) || last || step == 1);
    if (run_.norms_due(step)) log_norms();
    diary_.after_step(step, report);
    guard(report);
    bool improved = false;
    if (run_.evaluation_due(step)) {
      log_.pause();
      const std::optional<bool> evaluated = validation_.run(may_save());
      if (!evaluated) return false;
      improved = *evaluated;
      // If the update of this step was skipped, the newest checkpoint has the same weights.
      if (validation_.loss_is_finite() == true && checkpoints_) checkpoints_->confirm();
      diary_.renew_report();
      log_.resume();
    }
    save_due_ = save_due_ || run_.due(run_.config.train.checkpoint_every, step) || last;
    if ((improved || save_due_) && may_save()) {
      log_.pause();
      save();
      save_due_ = false;
      log_.resume();
    }
    if (last) judge_end();
    return true;
  }

  // Returns true if a checkpoint may be written. After a step that was not finite, a checkpoint
  // that is due waits for a finite step. The last step is an exception, because no step follows it.
  bool may_save() const { return progress_.bad_steps == 0 || progress_.step == total_steps(); }

  // Judges the last update by the evaluation after it, because no later step shows its effect.
  void judge_end() {
    if (validation_.loss_is_finite() != false) return;
    diverge(cat("the loss of the last evaluation, at step ", progress_.step, ", was not finite"));
  }

  // Counts non-finite steps in a row. A finite step clears the count, and confirms the weights that
  // it began with.
  void guard(const StepReport& report) {
    if (report.finite) {
      progress_.bad_steps = 0;
      if (checkpoints_) checkpoints_->confirm();
      return;
    }
    ++progress_.bad_steps;
    log_.warn(cat("step ", progress_.step, ": loss ", report.loss, ", gradient norm ",
                  report.grad_norm, "; skipped the update, the weights are unchanged (",
                  progress_.bad_steps, " of ", kBadStepsBeforeStop, " in a row)"));
    if (progress_.bad_steps >= kBadStepsBeforeStop) diverge(bad_steps());
  }

  std::string bad_steps() const {
    return cat("the loss or the gradient was not finite in steps ",
               progress_.step - progress_.bad_steps + 1, " to ", progress_.step);
  }

  // Goes back to the newest confirmed checkpoint, writes the summary, and throws DivergedError.
  [[noreturn]] void diverge(const std::string& why) {
    std::string advice;
    if (run_.ranks.is_root()) {
      Communicator::Work writing(run_.ranks, "setting a checkpoint aside",
                                 Communicator::Work::kLong);
      const Retreat retreat = checkpoints_->retreat();
      log_.sync();
      run_.attempts->save(progress_.step, log_.training());
      write_diverged_summary(run_, validation_, retreat);
      diary_.renew_report();
      advice = advice_after(retreat);
    }
    run_.ranks.barrier();  // an error ends the job, and the first rank may still be writing
    throw DivergedError(cat("training diverged: ", why, ". ", advice));
  }

  std::string advice_after(const Retreat& retreat) const {
    std::string text =
        retreat.confirmed
            ? cat("The newest checkpoint with a finite loss is ", retreat.confirmed->string(), ". ")
            : cat("No checkpoint in ", run_.output.string(), " has a finite loss. ");
    if (retreat.set_aside) {
      text += cat("The checkpoint after it is now ", retreat.set_aside->string(), ". ");
    }
    const bool clips = run_.config.optim.clip_grad_norm.has_value();
    return cat(text, "Lower optim.lr, lengthen schedule.warmup_epochs, or ",
               clips ? "lower" : "set", " optim.clip_grad_norm; then ",
               retreat.confirmed ? "continue" : "start again", " with --resume auto.");
  }

  // Returns true for a run that was finished before it was resumed. Its files stay unchanged.
  bool is_summarized() {
    if (!run_.resumed_at || *run_.resumed_at < total_steps()) return false;
    return run_.ranks.any(run_.ranks.is_root() && has_summary(run_.output, progress_.step));
  }

  // Repeats the evaluation in which the run was stopped. A finished run without a summary needs the
  // result of its last evaluation again. Returns false if a signal arrived.
  bool finish_interrupted_evaluation() {
    const std::int64_t step = progress_.step;
    if (step > 0 && run_.evaluation_due(step) && progress_.evaluated_step != step) {
      if (!validation_.run(may_save())) return false;
      if (may_save()) save();
    } else if (step >= total_steps() && step > 0 && !is_summarized()) {
      validation_.repeat();
    }
    if (step >= total_steps()) judge_end();
    log_.resume();
    return true;
  }

  // Writes a checkpoint on the first rank, after a check that all ranks have equal weights.
  void save() {
    check_equal_weights(run_.learner.parameters().values(), run_.ranks);
    if (!run_.ranks.is_root()) return;
    Communicator::Work writing(run_.ranks, "writing a checkpoint", Communicator::Work::kLong);
    log_.sync();
    if (norms_) norms_->sync();
    diary_.sync();
    CheckpointData data = take_snapshot(run_.config, run_.learner, progress_);
    data.class_names = run_.train->source().class_names();
    // The attempt comes first: a kill between the two must not lose the training time of this
    // attempt.
    run_.attempts->save(progress_.step, log_.training());
    checkpoints_->save(data);
  }

  // Winds the run back to before the skipped steps, after which no checkpoint is written. The
  // skipped steps have changed only these counts.
  void forget_bad_steps() {
    progress_.step -= progress_.bad_steps;
    progress_.evaluated_step = std::min(progress_.evaluated_step, progress_.step);
    // An evaluation after the skipped steps had the same weights.
    progress_.finite_step = std::min(progress_.finite_step, progress_.step);
    progress_.bad_steps = 0;
  }

  RunStatus stop() {
    while (!in_flight_.empty()) complete_step();
    const std::int64_t step = progress_.step;
    if (!may_save()) forget_bad_steps();
    save();
    log_.info(cat("stopped by a signal at step ", step, "; checkpoint in ",
                  checkpoint_path(run_.output, progress_.step).string(),
                  "; continue with --resume auto"));
    return RunStatus::kStopped;
  }

  void finish() {
    if (run_.ranks.is_root()) {
      checkpoints_->finish();
      run_.attempts->save(progress_.step, log_.training());
      write_summary(run_, validation_);
      tell_times();
    }
    diary_.renew_report();
  }

  void tell_times() {
    const std::string noun = run_.train->source().noun();
    const LoaderReport data = run_.train->loader().report();
    const std::size_t attempts = run_.attempts->count();
    log_.info(cat("trained and evaluated for ", format_duration(run_.attempts->seconds()),
                  attempts > 1 ? cat(" in ", attempts, " attempts; the last one") : ";", " waited ",
                  format_duration(data.wait_seconds), " for training ", noun));
    if (data.bad_images)
      log_.warn(cat("skipped ", counted(data.bad_images, "damaged training " + noun)));
  }

  Run& run_;
  RunProgress& progress_;
  RunLog& log_;
  Validation validation_;
  RunDiary diary_;
  std::optional<RunCheckpoints> checkpoints_;  // on the first rank
  std::optional<NormLog> norms_;               // on the first rank, with train.log_norms
  std::optional<Communicator::Work>& starting_;
  bool stopping_ = false;
  bool save_due_ = false;
  // Steps after progress_.step that await their reports, the newest last.
  struct Step {
    double lr;
    std::int64_t samples;
  };
  std::deque<Step> in_flight_;
  DeviceBatch batch_;
};

}  // namespace

RunStatus train(const ExperimentConfig& config, const TrainerOptions& options) {
  Communicator only;
  Communicator& ranks = options.ranks ? *options.ranks : only;
  {
    Communicator::Work preparing(ranks, "starting", Communicator::Work::kLong);
    if (ranks.is_root()) {
      std::filesystem::create_directories(options.output);
      remove_stale_temporaries(options.output);  // of an earlier run that was killed
    }
    check_equal_config(config, ranks);
  }
  install_stop_signals(ranks.is_single());
  std::optional<Communicator::Work> starting(std::in_place, ranks, "starting",
                                             Communicator::Work::kLong);
  const std::unique_ptr<Run> run = open_run(config, options, ranks);
  describe(*run);
  return Trainer(*run, options, starting).train();
}

std::optional<std::filesystem::path> resolve_resume(const std::string& resume,
                                                    const std::filesystem::path& output) {
  namespace fs = std::filesystem;
  if (resume == "auto") return fs::exists(output) ? find_resumable(output) : std::nullopt;
  fs::path dir = resume;
  if (!fs::exists(dir)) throw ConfigError(cat("--resume ", resume, ": no such folder"));
  if (!fs::is_directory(dir)) throw ConfigError(cat("--resume ", resume, ": not a folder"));
  if (fs::exists(dir / "state.safetensors")) return dir;
  std::optional<fs::path> found = find_resumable(dir);
  if (!found) throw ConfigError(cat("--resume ", resume, ": contains no checkpoint"));
  return found;
}

}  // namespace dtn
