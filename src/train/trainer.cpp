#include "train/trainer.h"

#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dtn/core/log.h"
#include "dtn/core/version.h"
#include "io/atomic_file.h"
#include "train/agreement.h"
#include "train/checkpoint.h"
#include "train/log/norm_log.h"
#include "train/log/run_diary.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/stop_signal.h"
#include "train/validation.h"

namespace dtn {
namespace {

constexpr std::int64_t kBadStepsBeforeStop = 3;

class Trainer {
 public:
  // `starting` ends with the first step.
  Trainer(Run& run, const TrainerOptions& options, std::optional<Communicator::Work>& starting)
      : run_(run),
        progress_(run.progress),
        log_(*run.log),
        validation_(run),
        diary_(run, options),
        starting_(starting) {
    if (!run.config.train.log_norms || !run.ranks.is_first()) return;
    norms_.emplace(run.output, run.task->backbone(), run.learner.parameters(), run.resumed_at);
  }

  RunStatus train() {
    const bool over = is_summarized();
    if (run_.ranks.is_first() && !over) log_to_file((run_.output / "train.log").string());
    // It diverged in its last steps: there is none left to do better in.
    if (started() >= total_steps() && progress_.bad_steps >= kBadStepsBeforeStop) throw diverged();
    if (!finish_interrupted_evaluation()) return stop();
    if (over) return RunStatus::kFinished;
    begin_norms();
    while (started() < total_steps()) {
      run_.train->feeder().start(started() / run_.steps_per_epoch,
                                 started() % run_.steps_per_epoch);
      while (started() < total_steps() && next_batch()) {
        diary_.begin(batch_);
        if (!one_step() || all_stop()) return stop();
      }
    }
    write_summary();
    diary_.renew_report();
    return RunStatus::kFinished;
  }

 private:
  std::int64_t total_steps() const { return run_.rate.total_steps(); }
  std::int64_t started() const {
    return progress_.step + static_cast<std::int64_t>(in_flight_.size());
  }

  // Whether a signal has reached any rank.
  bool all_stop() { return stopping_ = run_.ranks.any(stop_requested()); }

  // What dtn-analyze compares the end of a run with: the lambdas at its start, and its weights.
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

  // Starts one step on the batch at hand, and completes those before it that have been waiting. A
  // device works on the newest while the host completes the one before: its loss is read one step
  // late. Where something is to happen after this very step, it is completed at once. False when a
  // signal arrived.
  bool one_step() {
    const double lr = run_.rate.at(started());
    run_.learner.start_step(batch_.fields, started(), lr);
    in_flight_.push_back({lr, run_.ranks.alone() ? batch_.n : run_.config.train.batch_size});
    bool now = run_.learner.device() == kCpu || diary_.wants(started()) ||
               run_.norms_due(started()) || stopping_ ||
               run_.due(run_.config.train.checkpoint_every, started()) || progress_.bad_steps > 0;
    while (in_flight_.size() > (now ? 0 : Learner::kInFlight - 1)) {
      if (!complete_step()) return false;
      now = now || progress_.bad_steps > 0;
    }
    return true;
  }

  // Takes the report of the oldest step under way and does what is due after it. False when a
  // signal arrived during an evaluation.
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
      const std::optional<bool> evaluated = validation_.run();
      if (!evaluated) return false;
      improved = *evaluated;
      diary_.renew_report();
      log_.resume();
    }
    if (improved || run_.due(run_.config.train.checkpoint_every, step) || last) {
      log_.pause();
      save();
      log_.resume();
    }
    return true;
  }

  // Counts non-finite steps in a row; a good one clears the count.
  void guard(const StepReport& report) {
    if (report.finite) {
      progress_.bad_steps = 0;
      return;
    }
    ++progress_.bad_steps;
    log_.warn(cat("step ", progress_.step, ": loss ", report.loss, ", gradient norm ",
                  report.grad_norm, "; the update was left out and the weights are unchanged (",
                  progress_.bad_steps, " of ", kBadStepsBeforeStop, " in a row)"));
    if (progress_.bad_steps < kBadStepsBeforeStop) return;
    save();
    run_.ranks.barrier();  // an error ends the job, and the first rank may still be writing
    throw diverged();
  }

  DivergedError diverged() const {
    return DivergedError(cat("training diverged: the loss or the gradient was not finite in steps ",
                             progress_.step - progress_.bad_steps + 1, " to ", progress_.step,
                             ". The last good weights are in ", checkpoint(),
                             ". Lower optim.lr, lengthen schedule.warmup_epochs, or set "
                             "optim.clip_grad_norm."));
  }

  std::string checkpoint() const { return checkpoint_path(run_.output, progress_.step).string(); }

  // A run that was over before it was resumed; it is left as it is.
  bool is_summarized() {
    if (!run_.resumed_at || *run_.resumed_at < total_steps()) return false;
    return run_.ranks.any(run_.ranks.is_first() && has_summary());
  }
  bool has_summary() const {
    std::ifstream file(run_.output / "summary.json");
    const auto summary = nlohmann::json::parse(file, nullptr, false);
    return summary.is_object() && summary.value("steps", std::int64_t{-1}) == progress_.step;
  }

  // A run that was stopped within an evaluation owes it; a finished one needs its result again.
  bool finish_interrupted_evaluation() {
    const std::int64_t step = progress_.step;
    if (step > 0 && run_.evaluation_due(step) && progress_.evaluated_step != step) {
      if (!validation_.run()) return false;
      save();
    } else if (step >= total_steps() && step > 0 && !is_summarized()) {
      validation_.repeat();
    }
    log_.resume();
    return true;
  }

  // The first rank writes what all have.
  void save() {
    check_equal_weights(run_.learner.parameters().values(), run_.ranks);
    if (!run_.ranks.is_first()) return;
    Communicator::Work writing(run_.ranks, "writing a checkpoint", Communicator::Work::kLong);
    log_.sync();
    if (norms_) norms_->sync();
    diary_.sync();
    std::optional<std::int64_t> best_step;
    if (progress_.best_step >= 0) best_step = progress_.best_step;
    CheckpointData data = take_snapshot(run_.config, run_.learner, progress_);
    data.class_names = run_.train->source().class_names();
    // The leg first: a kill between the two must not lose what this leg trained.
    run_.legs->save(progress_.step, log_.training());
    save_checkpoint(run_.output, data, run_.config.train.keep, best_step,
                    run_.config.train.log_norms.has_value());
  }

  RunStatus stop() {
    while (!in_flight_.empty()) complete_step();
    save();
    log_.info(cat("stopped by a signal at step ", progress_.step, "; checkpoint in ", checkpoint(),
                  "; go on with --resume auto"));
    return RunStatus::kStopped;
  }

  // The figures of an evaluation, of those that there are.
  static nlohmann::ordered_json figures_of(const Evaluation& evaluation) {
    nlohmann::ordered_json figures;
    for (const auto& [name, value] : evaluation.metrics.values) figures[name] = value;
    return figures;
  }

  // Which checkpoint is the best, and by what.
  nlohmann::ordered_json best() const {
    if (progress_.best_step < 0) return nullptr;
    return {{"step", progress_.best_step},
            {"weights", run_.config.train.best == BestBy::kEma ? "ema" : "raw"},
            {validation_.last().metrics.primary, progress_.best}};
  }

  void write_summary() {
    if (!run_.ranks.is_first()) return;
    run_.legs->save(progress_.step, log_.training());
    const double seconds = run_.legs->seconds();
    const Evaluation& last = validation_.last();
    nlohmann::ordered_json summary = figures_of(last);
    summary["count"] = last.count;
    summary["steps"] = progress_.step;
    summary["wall_seconds"] = seconds;
    summary["images_per_second"] = run_.legs->training().samples_per_second();
    summary["legs"] = run_.legs->count();
    summary["best"] = best();
    summary["ema"] = validation_.last_of_average() ? figures_of(*validation_.last_of_average())
                                                   : nlohmann::ordered_json();
    summary["version"] = version();
    summary["commit"] = run_.commit;
    summary["device"] = device_text(run_);
    write_file_atomic(run_.output / "summary.json", summary.dump(2) + "\n");
    const std::string noun = run_.train->source().noun();
    const LoaderReport data = run_.train->loader().report();
    const std::size_t legs = run_.legs->count();
    log_.info(cat("trained and evaluated in ", format_duration(seconds),
                  legs > 1 ? cat(" (in ", legs, " legs)") : "", ", of which ",
                  format_duration(data.wait_seconds), legs > 1 ? " of the last" : "",
                  " waiting for training ", noun));
    if (data.bad_images)
      log_.warn(cat(data.bad_images, " damaged training ", noun, " were skipped"));
  }

  Run& run_;
  RunProgress& progress_;
  RunLog& log_;
  Validation validation_;
  RunDiary diary_;
  std::optional<NormLog> norms_;  // of the first rank, where the config wants it
  std::optional<Communicator::Work>& starting_;
  bool stopping_ = false;
  // Steps behind progress_.step whose reports are still on their way, the newest last.
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
    if (ranks.is_first()) {
      std::filesystem::create_directories(options.output);
      remove_stale_temporaries(options.output);  // of a run that was killed here
    }
    check_equal_config(config, ranks);
  }
  install_stop_signals(ranks.alone());
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
  if (!fs::is_directory(dir)) throw ConfigError(cat("--resume ", resume, ": is not a folder"));
  if (fs::exists(dir / "state.safetensors")) return dir;
  std::optional<fs::path> found = find_resumable(dir);
  if (!found) throw ConfigError(cat("--resume ", resume, ": holds no checkpoint"));
  return found;
}

}  // namespace dtn
