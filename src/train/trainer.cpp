#include "train/trainer.h"

#include "core/format.h"
#include "core/stop_signal.h"
#include "dtn/core/version.h"
#include "io/atomic_file.h"
#include "train/checkpoint.h"
#include "train/early_stop.h"
#include "train/freeze.h"
#include "train/rank_consistency.h"
#include "train/record/run_recorder.h"
#include "train/run_checkpoints.h"
#include "train/run_periods.h"
#include "train/run_schedule.h"
#include "train/run_setup.h"
#include "train/task_pictures.h"
#include "train/validation.h"

namespace dtn {
namespace {

constexpr std::int64_t kBadStepsBeforeStop = 3;

class Trainer {
 public:
  // Opens data and model, loads the weights, and begins the records.
  Trainer(const ExperimentConfig& config, const TrainerOptions& options, Communicator& ranks)
      : starting_(std::in_place, ranks, "starting", Communicator::Work::kLong),
        config_(config),
        options_(options),
        ranks_(ranks),
        task_(open_task(config, options, ranks)),
        train_split_(open_run_split(*task_, config, Split::kTrain, options.device, ranks)),
        val_split_(open_run_split(*task_, config, Split::kVal, options.device, ranks)),
        references_(val_split_ ? open_references(*task_, config, options.device, ranks) : nullptr),
        schedule_(config, *task_, train_split_->loader().batches_per_epoch(),
                  options.registries->schedules),
        periods_(config.train, schedule_.run().steps_per_epoch, schedule_.run().steps,
                 val_split_ != nullptr, task_->picture_period()),
        learner_(config, *task_, options.device, &ranks, options.registries->optimizers),
        progress_(load_start(config, options, *train_split_, learner_, ranks)),
        recorder_(config, options, learner_, progress_, periods_, train_split_->source().noun(),
                  ranks),
        validation_(learner_, val_split_.get(), references_.get(), config.train.best, progress_,
                    recorder_, ranks),
        early_stop_(config, options.registries->tasks.at(config.task).schema, val_split_ != nullptr,
                    progress_),
        pictures_(learner_, options.output, progress_, recorder_, ranks),
        checkpoints_(config, options, train_split_->source().class_names(), learner_, progress_,
                     recorder_, periods_, ranks) {
    learner_.set_late_from(task_->late_from(schedule_.run()));
    if (early_stop_.is_over()) periods_.end_at(progress_.step);
  }

  RunStatus train() {
    log_setup();
    const bool over = was_finished();
    if (!over) begin_records();
    // The run diverged in its last steps, under an earlier version. It cannot recover, because no
    // step is left.
    if (all_started() && progress_.bad_steps >= kBadStepsBeforeStop) diverge(bad_steps());
    if (!finish_interrupted_evaluation()) return stop();
    if (!over && periods_.picture_due(progress_.step)) pictures_.draw_missing();
    if (over) {
      recorder_.info(over_text());
      return RunStatus::kFinished;
    }
    begin_lambdas();
    while (!all_started()) {
      train_split_->feeder().start(started() / periods_.steps_per_epoch(),
                                   started() % periods_.steps_per_epoch());
      while (!all_started() && next_batch()) {
        recorder_.batch(batch_);
        if (!one_step() || all_stop()) return stop();
      }
    }
    checkpoints_.finish();
    recorder_.finish(validation_.last(), train_split_->loader().report());
    return RunStatus::kFinished;
  }

 private:
  // Steps, those in flight included.
  std::int64_t started() const {
    return progress_.step + static_cast<std::int64_t>(learner_.unfinished());
  }
  bool all_started() const { return started() >= periods_.total_steps(); }

  // Returns true if a signal has reached any rank.
  bool all_stop() { return stopping_ = ranks_.any(stop_requested()); }

  void begin_records() {
    recorder_.begin();
    recorder_.splits(train_split_->source(), val_split_ ? &val_split_->source() : nullptr);
  }

  // Logs and saves the start of a run whose lambdas are logged. dtn-analyze compares the end of the
  // run with it.
  void begin_lambdas() {
    if (progress_.resumed_at || !periods_.lambdas_due(0)) return;
    recorder_.lambdas();
    checkpoints_.save();
    recorder_.resume();
  }

  bool next_batch() {
    Communicator::Work waiting(ranks_, "waiting for samples");
    return train_split_->feeder().next(batch_);
  }

  // Starts one step on the current batch, and completes earlier steps. A CUDA device computes the
  // newest step while the host completes the previous step, so the loss is read one step late. If
  // something is due after the new step, completes it at once. Returns false if a signal arrived.
  bool one_step() {
    learner_.start_step(batch_.fields, schedule_.at(started()));
    bool now = learner_.device() == kCpu || periods_.needs_state_of(started()) || stopping_ ||
               progress_.bad_steps > 0;
    while (learner_.unfinished() > (now ? 0 : Learner::kInFlight - 1)) {
      if (!complete_step()) return false;
      now = now || progress_.bad_steps > 0;
    }
    return true;
  }

  // Takes the report of the oldest step in flight and does what is due after that step. Returns
  // false if a signal arrived during an evaluation.
  bool complete_step() {
    StepReport report = learner_.finish_step();
    starting_.reset();
    const double lr = schedule_.learning_rate_at(progress_.step);
    report.scheduled = schedule_.logged_at(progress_.step);
    const std::int64_t step = ++progress_.step;
    recorder_.step(report, lr, train_split_->feeder().report().wait_seconds);
    guard(report);
    bool improved = false;
    if (periods_.evaluation_due(step)) {
      recorder_.pause();
      const std::optional<bool> evaluated = validation_.run(may_save());
      if (!evaluated) return false;
      improved = *evaluated;
      // If the update of this step was skipped, the newest checkpoint has the same weights.
      if (validation_.loss_is_finite() == true) checkpoints_.confirm();
      consider_early_stop();
      if (periods_.picture_due(step)) pictures_.draw();
      recorder_.update_report();
      recorder_.resume();
    } else if (periods_.picture_due(step)) {
      recorder_.pause();
      pictures_.draw();
      recorder_.update_report();
      recorder_.resume();
    }
    save_due_ = save_due_ || periods_.checkpoint_due(step);
    if ((improved || save_due_) && may_save()) {
      recorder_.pause();
      checkpoints_.save();
      save_due_ = false;
      recorder_.resume();
    }
    if (periods_.is_last(step)) judge_end();
    return true;
  }

  // Makes this step the last one if the evaluations no longer get better.
  void consider_early_stop() {
    early_stop_.take(validation_.judged().metrics);
    if (!early_stop_.is_over() || periods_.is_last(progress_.step)) return;
    periods_.end_at(progress_.step);
    recorder_.info(cat("stopped early at step ", progress_.step, ": ", early_stop_.reason()));
  }

  // Returns true if a checkpoint may be written. After a step that was not finite, a checkpoint
  // that is due waits for a finite step. The last step is an exception, because no step follows it.
  bool may_save() const { return progress_.bad_steps == 0 || periods_.is_last(progress_.step); }

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
      checkpoints_.confirm();
      return;
    }
    ++progress_.bad_steps;
    recorder_.warn(cat("step ", progress_.step, ": loss ", report.loss, ", gradient norm ",
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
    if (ranks_.is_root()) {
      Communicator::Work writing(ranks_, "setting a checkpoint aside", Communicator::Work::kLong);
      const Retreat retreat = checkpoints_.retreat();
      recorder_.diverge(validation_.last(), retreat);
      advice = advice_after(retreat);
    }
    ranks_.barrier();  // an error ends the job, and the first rank may still be writing
    throw DivergedError(cat("training diverged: ", why, ". ", advice));
  }

  std::string advice_after(const Retreat& retreat) const {
    std::string text =
        retreat.confirmed
            ? cat("The newest checkpoint with a finite loss is ", retreat.confirmed->string(), ". ")
            : cat("No checkpoint in ", options_.output.string(), " has a finite loss. ");
    if (retreat.set_aside) {
      text += cat("The checkpoint after it is now ", retreat.set_aside->string(), ". ");
    }
    const OptimConfig& optim = config_.optim;
    const bool clips = optim.clip_grad_norm.value_or(0) > 0 || optim.clip_param_norm;
    return cat(text, "Lower optim.lr, lengthen schedule.warmup_epochs, or ",
               clips ? "lower" : "set", " optim.",
               optim.clip_param_norm ? "clip_param_norm" : "clip_grad_norm", "; then ",
               retreat.confirmed ? "continue" : "start again", " with --resume auto.");
  }

  // Returns true for a run that was finished before it was resumed. Its files stay unchanged.
  bool was_finished() {
    if (!progress_.resumed_at || *progress_.resumed_at < periods_.total_steps()) return false;
    return ranks_.any(recorder_.is_summarized());
  }

  std::string over_text() const {
    if (early_stop_.is_over()) {
      return cat("the run has stopped early, at step ", periods_.total_steps(), ": ",
                 early_stop_.reason(),
                 "; to continue the training, resume it with a larger train.early_stop.patience");
    }
    const ScheduleConfig& schedule = config_.schedule;
    const char* key = schedule.steps ? "schedule.steps" : "schedule.epochs";
    return cat("the run is already finished, at step ", periods_.total_steps(), " (", key, " is ",
               schedule.steps ? *schedule.steps : *schedule.epochs,
               "); to continue the training, resume it with a larger ", key, " (--set ", key,
               "=N)");
  }

  // Repeats the evaluation in which the run was stopped. A finished run without a summary needs the
  // result of its last evaluation again. Returns false if a signal arrived.
  bool finish_interrupted_evaluation() {
    const std::int64_t step = progress_.step;
    if (step > 0 && periods_.evaluation_due(step) && progress_.evaluated_step != step) {
      if (!validation_.run(may_save())) return false;
      consider_early_stop();
      if (may_save()) checkpoints_.save();
    } else if (val_split_ && step > 0 && all_started() && !was_finished()) {
      validation_.repeat();
    }
    if (all_started()) judge_end();
    recorder_.resume();
    return true;
  }

  // Writes a checkpoint. If the last steps were not finite, it is the one before them.
  RunStatus stop() {
    while (learner_.unfinished() > 0) complete_step();
    const std::int64_t step = progress_.step;
    if (!may_save()) progress_.forget_bad_steps();
    checkpoints_.save();
    recorder_.info(cat("stopped by a signal at step ", step, "; checkpoint in ",
                       checkpoint_path(options_.output, progress_.step).string(),
                       "; continue with --resume auto"));
    return RunStatus::kStopped;
  }

  // Logs the program, the model, the length of the run and the device.
  void log_setup() {
    const auto log = [&](const char* title, const std::string& text) {
      if (!text.empty()) recorder_.info(cat(title, ": ", text));
    };
    log("program", cat("dtn ", version(), ", commit ", options_.commit));
    log("model", task_->description());
    log("loss", task_->objective());
    const ClassRemarks remarks =
        class_remarks(config_, train_split_->source(), *options_.registries);
    log("sampling", remarks.sampling);
    log("classes", remarks.classes);
    log("run",
        cat(counted(periods_.total_steps(), "steps"), " of ",
            counted(config_.train.batch_size, train_split_->source().noun()), ", ",
            counted(periods_.steps_per_epoch(), "steps"), " per epoch, ",
            name_of(learner_.compute_dtype()), " on ", device_text(learner_.device(), ranks_),
            feeding_text(), ", learning rate ", schedule_.peak_rate()));
    log("rates", learner_.optimizer().rates());
    log("frozen", describe_frozen(learner_.parameters()));
    if (progress_.resumed_at) recorder_.info(cat("resumed at step ", *progress_.resumed_at));
  }

  // Describes the data workers of the host that feed a CUDA device; empty on the CPU.
  std::string feeding_text() const {
    if (learner_.device() == kCpu) return {};
    return cat(", fed by ", counted(workers_of(config_.data, learner_.device()), "data workers"),
               ranks_.is_single() ? "" : " each");
  }

  std::optional<Communicator::Work> starting_;  // until the first step is finished
  const ExperimentConfig& config_;
  const TrainerOptions& options_;
  Communicator& ranks_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<OpenSplit> train_split_, val_split_, references_;
  RunSchedule schedule_;
  RunPeriods periods_;
  Learner learner_;
  RunProgress progress_;
  RunRecorder recorder_;
  Validation validation_;
  EarlyStop early_stop_;
  TaskPictures pictures_;
  RunCheckpoints checkpoints_;
  DeviceBatch batch_;
  bool stopping_ = false;
  bool save_due_ = false;
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
  return Trainer(config, options, ranks).train();
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
