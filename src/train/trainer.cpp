#include "train/trainer.h"

#include <chrono>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/cuda_device.h"
#include "data/feed/open_split.h"
#include "dtn/config/load.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/models/weights.h"
#include "dtn/optim/schedule.h"
#include "io/atomic_file.h"
#include "train/agreement.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/run_log.h"
#include "train/snapshot.h"
#include "train/stop_signal.h"

namespace dtn {
namespace {

constexpr int kBadStepsBeforeStop = 3;

// What the ranks together see at once: to each, what it sees in training at most.
std::int64_t evaluation_batch(const TrainConfig& train, int ranks) {
  const std::int64_t batch = train.batch_size;
  return train.micro_batch ? std::min<std::int64_t>(batch, *train.micro_batch * ranks) : batch;
}

std::unique_ptr<OpenSplit> open_checked(const ExperimentConfig& config, Split split, Device device,
                                        Communicator& ranks) {
  const bool training = split == Split::kTrain;
  const auto images = open_image_samples(config, split, device);
  check_equal_data(*images, ranks);
  log_info(cat(name_of(split), ": ", images->description()));
  return open_split(images, config, split,
                    {.device = device,
                     .batch_size = training ? config.train.batch_size
                                            : evaluation_batch(config.train, ranks.size()),
                     .rank = ranks.rank(),
                     .ranks = ranks.size()});
}

class Trainer {
 public:
  Trainer(const ExperimentConfig& config, const TrainerOptions& options)
      : config_(config),
        output_(options.output),
        ranks_(options.ranks ? *options.ranks : only_),
        starting_(std::in_place, ranks_, "starting", Communicator::Work::kLong),
        train_(open_checked(config, Split::kTrain, options.device, ranks_)),
        val_(open_checked(config, Split::kVal, options.device, ranks_)),
        steps_per_epoch_(train_->loader().batches_per_epoch()),
        rate_(config.optim, config.schedule, config.train.batch_size, steps_per_epoch_),
        learner_(config, options.device, &ranks_) {
    if (ranks_.is_first()) read_weights(options);
    share_run(learner_, progress_, resumed_at_, ranks_);
    progress_.steps_per_epoch = steps_per_epoch_;
    if (ranks_.is_first()) write_file_atomic(output_ / "config.yaml", to_yaml(config_));
    log_.emplace(output_, !ranks_.is_first(), resumed_at_, progress_.evaluated_step,
                 rate_.total_steps(), steps_per_epoch_);
    describe();
  }

  RunStatus run() {
    auto start = std::chrono::steady_clock::now();
    // It diverged in its last steps: there is none left to do better in.
    if (started() >= rate_.total_steps() && progress_.bad_steps >= kBadStepsBeforeStop) {
      throw diverged();
    }
    if (!finish_interrupted_evaluation()) return stop();
    if (is_summarized()) return RunStatus::kFinished;
    for (std::int64_t epoch = started() / steps_per_epoch_; started() < rate_.total_steps();
         ++epoch) {
      train_->feeder().start(epoch, started() % steps_per_epoch_);
      while (started() < rate_.total_steps() && next_batch()) {
        if (!one_step() || all_stop()) return stop();
      }
    }
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    write_summary(seconds);
    return RunStatus::kFinished;
  }

 private:
  // Of a checkpoint to go on from, or to begin with.
  void read_weights(const TrainerOptions& options) {
    if (options.resume_from) {
      progress_ = restore_snapshot(load_checkpoint(*options.resume_from), config_, learner_);
      resumed_at_ = progress_.step;
      if (progress_.steps_per_epoch != steps_per_epoch_) {
        throw ConfigError(cat("--resume: the checkpoint counts ", progress_.steps_per_epoch,
                              " steps per epoch, this run ", steps_per_epoch_,
                              "; the data set or train.batch_size has changed"));
      }
    } else if (config_.model.init_weights) {
      for (const std::string& note : load_weights(learner_.model(), *config_.model.init_weights)) {
        log_info(cat("init_weights: ", note));
      }
      if (learner_.average())
        learner_.average()->values().copy_from(learner_.model().parameters().values());
    }
  }

  bool due(const Period& period, std::int64_t step) const {
    if (period.count == 0) return false;
    return step % (period.epochs ? period.count * steps_per_epoch_ : period.count) == 0;
  }
  bool evaluation_due(std::int64_t step) const {
    return due(config_.train.eval_every, step) || step == rate_.total_steps();
  }

  // Whether a signal has reached any rank.
  bool all_stop() { return stopping_ = ranks_.any(stop_requested()); }

  std::int64_t started() const {
    return progress_.step + static_cast<std::int64_t>(in_flight_.size());
  }

  bool next_batch() {
    Communicator::Work waiting(ranks_, "waiting for images");
    return train_->feeder().next(batch_);
  }

  // Starts one step on the batch at hand, and settles those before it that have been waiting. A
  // device works on the newest while the host settles the one before: its loss is read one step
  // late. Where something is to happen after this very step, it is settled at once. False when a
  // signal arrived.
  bool one_step() {
    double lr = rate_.at(started());
    const Fields& fields = batch_.fields;
    const auto where_mixed = [&](const char* name) {
      return fields.has(name) ? fields.at(name) : Tensor();
    };
    learner_.start_step(
        fields.at("image"),
        {fields.at("label"), where_mixed("partner_label"), where_mixed("label_share")}, started(),
        lr);
    in_flight_.push_back({lr, ranks_.alone() ? batch_.n : config_.train.batch_size});
    bool now = learner_.device() == kCpu || evaluation_due(started()) || stopping_ ||
               due(config_.train.checkpoint_every, started()) || progress_.bad_steps > 0;
    while (in_flight_.size() > (now ? 0 : Learner::kInFlight - 1)) {
      if (!settle()) return false;
      now = now || progress_.bad_steps > 0;
    }
    return true;
  }

  // Takes the report of the oldest step under way and does what is due after it. False when a
  // signal arrived during an evaluation.
  bool settle() {
    StepReport report = learner_.finish_step();
    auto [lr, images] = in_flight_.front();
    in_flight_.pop_front();
    starting_.reset();
    std::int64_t step = ++progress_.step;
    bool last = step == rate_.total_steps();
    log_->train_step(step, report, lr, images, train_->feeder().report().wait_seconds,
                     due(config_.train.log_every, step) || last || step == 1);
    guard(report);
    bool improved = false;
    if (evaluation_due(step)) {
      log_->pause();
      if (!evaluate_all(improved)) return false;
      log_->resume();
    }
    if (improved || due(config_.train.checkpoint_every, step) || last) {
      log_->pause();
      save();
      log_->resume();
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
    log_->warn(cat("step ", progress_.step, ": loss ", report.loss, ", gradient norm ",
                   report.grad_norm, "; the update was left out and the weights are unchanged (",
                   progress_.bad_steps, " of ", kBadStepsBeforeStop, " in a row)"));
    if (progress_.bad_steps < kBadStepsBeforeStop) return;
    save();
    ranks_.barrier();  // an error ends the job, and the first rank may still be writing
    throw diverged();
  }

  DivergedError diverged() const {
    return DivergedError(cat("training diverged: the loss or the gradient was not finite in steps ",
                             progress_.step - progress_.bad_steps + 1, " to ", progress_.step,
                             ". The last good weights are in ",
                             checkpoint_path(output_, progress_.step).string(),
                             ". Lower optim.lr, lengthen schedule.warmup_epochs, or set "
                             "optim.clip_grad_norm."));
  }

  std::optional<EvalResult> evaluate_one() {
    EvalOptions options;
    options.stop = stop_requested;
    options.ranks = &ranks_;
    std::int64_t total = val_->loader().samples_per_epoch();
    options.on_batch = [&](const DeviceBatch&, const Tensor&, std::int64_t done) {
      log_->evaluation_progress(done, total);
    };
    return evaluate(learner_.model(), val_->feeder(), options);
  }

  // Evaluates the weights and their average; false when stopped. Sets `improved` when the one
  // that train.best names is the best so far.
  bool evaluate_all(bool& improved) {
    std::optional<EvalResult> raw = evaluate_one();
    if (!raw) return false;
    std::optional<EvalResult> ema;
    if (MovingAverage* average = learner_.average()) {
      average->swap();
      ema = evaluate_one();
      average->swap();
      if (!ema) return false;
    }
    log_->evaluation(progress_.step, "val", *raw);
    if (ema) log_->evaluation(progress_.step, "val_ema", *ema);
    progress_.evaluated_step = progress_.step;
    last_eval_ = *raw;
    double top1 = ema && config_.train.best == BestBy::kEma ? ema->top1 : raw->top1;
    improved = top1 > progress_.best_top1;
    if (improved) {
      progress_.best_top1 = top1;
      progress_.best_step = progress_.step;
    }
    return true;
  }

  // A run that was over before it was resumed; it is left as it is.
  bool is_summarized() {
    if (!resumed_at_ || *resumed_at_ < rate_.total_steps()) return false;
    return ranks_.any(ranks_.is_first() && has_summary());
  }
  bool has_summary() const {
    std::ifstream file(output_ / "summary.json");
    auto summary = nlohmann::json::parse(file, nullptr, false);
    return summary.is_object() && summary.value("steps", std::int64_t{-1}) == progress_.step;
  }

  // A run that was stopped within an evaluation owes it; a finished one needs its result again.
  bool finish_interrupted_evaluation() {
    std::int64_t step = progress_.step;
    bool owed = step > 0 && evaluation_due(step) && progress_.evaluated_step != step;
    if (owed) {
      bool improved = false;
      if (!evaluate_all(improved)) return false;
      save();
    } else if (step >= rate_.total_steps() && step > 0 && !is_summarized()) {
      EvalOptions options;
      options.ranks = &ranks_;
      last_eval_ = evaluate(learner_.model(), val_->feeder(), options).value();
    }
    log_->resume();
    return true;
  }

  // The first rank writes what all have.
  void save() {
    check_equal_weights(learner_.model().parameters().values(), ranks_);
    if (!ranks_.is_first()) return;
    Communicator::Work writing(ranks_, "writing a checkpoint", Communicator::Work::kLong);
    log_->sync();
    std::optional<std::int64_t> best_step;
    if (progress_.best_step >= 0) best_step = progress_.best_step;
    save_checkpoint(output_, take_snapshot(config_, learner_, progress_), config_.train.keep,
                    best_step);
  }

  RunStatus stop() {
    while (!in_flight_.empty()) settle();
    save();
    log_->info(cat("stopped by a signal at step ", progress_.step, "; checkpoint in ",
                   checkpoint_path(output_, progress_.step).string(),
                   "; go on with --resume auto"));
    return RunStatus::kStopped;
  }

  void write_summary(double seconds) {
    if (!ranks_.is_first()) return;
    nlohmann::ordered_json summary = {{"top1", last_eval_.top1},
                                      {"top5", last_eval_.top5},
                                      {"loss", last_eval_.loss},
                                      {"count", last_eval_.count},
                                      {"steps", progress_.step},
                                      {"wall_seconds", seconds},
                                      {"images_per_second", log_->images_per_second()}};
    write_file_atomic(output_ / "summary.json", summary.dump(2) + "\n");
    LoaderReport data = train_->loader().report();
    log_->info(cat("trained and evaluated in ", format_duration(seconds), ", of which ",
                   format_duration(data.wait_seconds), " waiting for training images"));
    if (data.bad_images) log_->warn(cat(data.bad_images, " damaged training images were skipped"));
  }

  std::string describe_device() const {
    const bool on_cpu = learner_.device() == kCpu;
    const std::string one =
        on_cpu ? cat(max_threads(), " threads") : std::string(cuda::device_info().name);
    const std::string each = ranks_.alone() ? "" : " each";
    std::string text = ranks_.alone() ? one : cat(ranks_.size(), " processes with ", one, each);
    if (!on_cpu) {
      text += cat(", fed by ", workers_of(config_.data, learner_.device()), " data workers", each);
    }
    return text;
  }

  void describe() {
    const ModelConfig& m = config_.model;
    log_->info(cat("model: ", m.preset, ", ", m.norm.type, " in the first ", m.norm_layers(),
                   " of ", m.depth, " blocks, ", learner_.model().parameters().count(),
                   " parameters"));
    log_->info(cat("run: ", rate_.total_steps(), " steps of ", config_.train.batch_size,
                   " images, ", steps_per_epoch_, " steps per epoch, ",
                   name_of(learner_.compute_dtype()), " on ", describe_device(), ", learning rate ",
                   rate_.peak()));
    if (resumed_at_) log_->info(cat("resumed at step ", *resumed_at_));
  }

  ExperimentConfig config_;
  std::filesystem::path output_;
  Communicator only_;
  Communicator& ranks_;
  std::optional<Communicator::Work> starting_;
  bool stopping_ = false;
  std::unique_ptr<OpenSplit> train_, val_;
  std::int64_t steps_per_epoch_;
  LearningRate rate_;
  Learner learner_;
  RunProgress progress_;
  std::optional<std::int64_t> resumed_at_;
  std::optional<RunLog> log_;
  // Steps behind progress_.step whose reports are still on their way, the newest last.
  struct Step {
    double lr;
    std::int64_t images;
  };
  std::deque<Step> in_flight_;
  DeviceBatch batch_;
  EvalResult last_eval_;
};

}  // namespace

RunStatus train(const ExperimentConfig& config, const TrainerOptions& options) {
  std::optional<Communicator::Work> preparing;
  if (options.ranks) preparing.emplace(*options.ranks, "starting", Communicator::Work::kLong);
  if (!options.ranks || options.ranks->is_first()) {
    std::filesystem::create_directories(options.output);
    remove_stale_temporaries(options.output);  // of a run that was killed here
  }
  if (options.ranks) check_equal_config(config, *options.ranks);
  preparing.reset();
  install_stop_signals(!options.ranks || options.ranks->alone());
  return Trainer(config, options).run();
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
