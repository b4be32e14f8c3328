#include "apps/sweep/sweep.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "apps/sweep/feature_runs.h"
#include "apps/sweep/known_runs.h"
#include "apps/sweep/robustness_runs.h"
#include "apps/sweep/sample_runs.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "config/document.h"
#include "core/exit_code.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "core/stop_signal.h"
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/child_process.h"
#include "io/posix.h"
#include "plot/picture_files.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Lock of a sweep's folder. This process and its children hold it until all of them exit: the
// children of a killed sweep may still run for a moment, and use their folders until then.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : file_(::open((folder / kLockFile).c_str(), O_RDWR | O_CREAT, 0666)) {
    if (file_.get() < 0) throw_errno("open", folder / kLockFile);
    if (!lock_file(file_.get(), 2s)) {
      throw ConfigError(
          cat("--output ", folder.string(), ": another dtn-sweep is running in this folder"));
    }
  }

 private:
  FileHandle file_;
};

// Returns the last error message in the log after `offset`, without its time of day.
std::string error_in_log(const fs::path& log, std::uintmax_t offset) {
  std::ifstream in(log, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  std::string found;
  const std::string mark = "error: ";
  for (std::string line; std::getline(in, line);) {
    std::size_t at = line.find(mark);
    if (at != std::string::npos) found = line.substr(at + mark.size());
  }
  constexpr std::size_t kMax = 1000;
  if (found.size() > kMax) found.resize(kMax);
  return found;
}

class Sweep {
 public:
  Sweep(const SweepConfig& sweep, const SweepOptions& options, std::vector<SweepRun> runs)
      : sweep_(sweep),
        options_(options),
        runs_(std::move(runs)),
        costs_(costs_of(sweep, *options.registries)),
        bar_("sweep", 1) {
    for (SweepRun& run : runs_) {
      if (!run.selected) continue;
      ++selected_;
      if (run.state == RunState::kFinished) {
        ++finished_;
      } else {
        queue_.push_back(&run);
      }
    }
    // Round-robin over the variants, so that a half-finished sweep allows comparisons.
    std::ranges::stable_sort(queue_, {}, [&](const SweepRun* run) { return round_of(*run); });
    remaining_at_start_ = queue_.size();
    // This also detects missing data of any run before the first run starts.
    SizeCache sizes(kCpu, *options.registries);
    for (const SweepRun* run : queue_) {
      sizes_.push_back(sizes.of(run->config).size);
      work_left_ += work_of(*run, sizes_.back().steps - run->step);
    }
  }

  SweepStatus run() {
    log_info(cat("sweep ", sweep_.name, ": ", counted(selected_, "runs"), ", ", finished_,
                 " finished; ", options_.output.string()));
    write_report();
    start_ = Clock::now();
    for (;;) {
      if (!stopping_ && stop_requested()) stop();
      collect();
      while (!stopping_ && !queue_.empty() &&
             active_.size() < static_cast<std::size_t>(options_.jobs)) {
        start_next();
      }
      if (active_.empty() && (stopping_ || queue_.empty())) break;
      show_progress();
      std::this_thread::sleep_for(50ms);
    }
    if (!stopping_) evaluated_ = evaluate();
    return conclude();
  }

  const std::vector<SweepRun>& runs() const { return runs_; }

 private:
  // Evaluates the finished runs on the suites, their features, and their samples.
  SweepStatus evaluate() {
    SweepStatus status = SweepStatus::kFinished;
    for (const auto part : {evaluate_on_suites, evaluate_features, judge_samples}) {
      const SweepStatus one = part(sweep_, options_, runs_);
      if (one != SweepStatus::kFinished) status = one;
      if (one == SweepStatus::kStopped) break;
    }
    return status;
  }

  struct Active {
    SweepRun* run;
    RunSize size;
    std::unique_ptr<ChildProcess> child;
    Clock::time_point start;
    std::uintmax_t log_offset;
    std::int64_t first_step, step;
  };

  // Index of a run's seed among the seeds of its variant.
  std::ptrdiff_t round_of(const SweepRun& run) const {
    const auto& seeds = sweep_.variants[run.variant].seeds;
    return std::ranges::find(seeds, run.seed) - seeds.begin();
  }

  double work_of(const SweepRun& run, std::int64_t steps) const {
    const Complexity& cost = costs_[run.variant];
    const double each =
        cost.multiply_adds > 0 ? cost.multiply_adds : static_cast<double>(cost.parameters);
    return static_cast<double>(steps) * run.config.train.batch_size * each;
  }

  void start_next() {
    SweepRun* run = queue_.front();
    queue_.pop_front();
    const RunSize size = sizes_.front();
    sizes_.pop_front();
    fs::create_directories(run->folder);
    clear_failure(*run);
    update_state(*run);
    const fs::path config = run->folder / "config.yaml", log = run->folder / kRunLog;
    write_file_atomic(config, to_yaml(run->config));
    std::error_code none;
    const std::uintmax_t offset = fs::exists(log, none) ? fs::file_size(log) : 0;
    say(cat(run->id, run->step ? cat(" continues at step ", run->step) : std::string(" starts"),
            ", ", counted(size.steps, "steps"), "; log in ", log.string()));
    auto child = std::make_unique<ChildProcess>(
        std::vector<std::string>{options_.trainer.string(), "--config", config.string(), "--output",
                                 run->folder.string(), "--resume", "auto", "--device",
                                 options_.device, "--threads", std::to_string(options_.threads)},
        log);
    active_.push_back({run, size, std::move(child), Clock::now(), offset, run->step, run->step});
  }

  void collect() {
    for (std::size_t i = 0; i < active_.size();) {
      const auto exit = active_[i].child->poll();
      if (!exit) {
        ++i;
        continue;
      }
      const Active ended = std::move(active_[i]);
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      settle(ended, *exit);
    }
  }

  void settle(const Active& ended, const ChildExit& exit) {
    SweepRun& run = *ended.run;
    const double work = work_of(run, ended.size.steps - ended.first_step);
    work_left_ -= work;
    update_state(run);
    const bool told = stopping_ && (exit.signal == SIGINT || exit.signal == SIGTERM);
    if (exit.code == 0 && exit.signal == 0 && run.state == RunState::kFinished) {
      work_done_ += work;
      ++finished_;
      const SweepReport report = write_report();
      tell_result(ended, report.results[run.variant]);
    } else if (exit.code == kExitStopped || told) {
      stopped_ = true;
      say(cat(run.id, " stopped at step ", run.step));
    } else {
      fail(ended, exit);
    }
  }

  void fail(const Active& ended, const ChildExit& exit) {
    SweepRun& run = *ended.run;
    Failure failure{exit.signal ? 128 + exit.signal : exit.code,
                    error_in_log(run.folder / kRunLog, ended.log_offset)};
    if (exit.signal) failure.error = ::strsignal(exit.signal);
    if (failure.error.empty()) failure.error = cat("see ", kRunLog, " in its folder");
    write_failure(run, failure);
    update_state(run);
    failed_.push_back(cat(run.id, " (", failure.code, ")"));
    write_report();
    bar_.clear();
    log_warn(cat(run.id, " failed with ",
                 exit.signal ? cat("signal ", exit.signal) : cat("exit code ", exit.code), ": ",
                 failure.error));
    if (!options_.keep_going) leave_out_the_rest();
  }

  void leave_out_the_rest() {
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      work_left_ -= work_of(*queue_[i], sizes_[i].steps - queue_[i]->step);
    }
    queue_.clear();
    sizes_.clear();
  }

  void tell_result(const Active& ended, const VariantResult& result) {
    for (const RunResult& r : result.runs) {
      if (r.seed != ended.run->seed) continue;
      say(cat(ended.run->id, " done: ", metric_title(sweep_), " ", metric_text(sweep_, r.value),
              ", ", format("%.1f ", r.images_per_second), rate_title(sweep_), ", ",
              format_duration(seconds_since(ended.start)), "; ", finished_, " of ", selected_,
              " runs, left ", time_left()));
    }
  }

  void show_progress() {
    if (seconds_since(shown_) < 0.5) return;
    shown_ = Clock::now();
    std::string detail;
    for (Active& a : active_) {
      a.step = std::clamp(logged_step(a.run->folder), a.first_step, a.size.steps);
      detail +=
          cat("  ", a.run->id, " ", 100 * a.step / std::max<std::int64_t>(1, a.size.steps), " %");
    }
    const double now = work_done_ + work_under_way();
    const double all = work_done_ + work_left_;
    const double share = all > 0 ? now / all : 1;
    // Runs that were already finished count with the mean length of these runs.
    const double before = static_cast<double>(selected_ - remaining_at_start_) / selected_;
    bar_.draw(before + (1 - before) * share,
              cat(finished_, "/", selected_, " runs", detail, "  left ", time_left()));
  }

  double work_under_way() const {
    double work = 0;
    for (const Active& a : active_) work += work_of(*a.run, a.step - a.first_step);
    return work;
  }

  // Estimates from the rate since the start.
  std::string time_left() const {
    const double done = work_done_ + work_under_way();
    const double left = work_left_ - work_under_way();
    if (left <= 0) return format_duration(0);
    return done > 0 ? format_duration(left * seconds_since(start_) / done) : "?";
  }

  void stop() {
    stopping_ = stopped_ = true;
    if (active_.empty()) return;
    say(cat("stopping: ", active_.size(), active_.size() == 1 ? " run saves" : " runs save",
            " a checkpoint; a second signal stops without saving"));
    // Send SIGINT: a stop of the whole process group has already sent SIGTERM to the runs, and a
    // second signal of the same kind kills.
    for (const Active& a : active_) a.child->send(SIGINT);
  }

  void say(const std::string& message) {
    bar_.clear();
    log_info(message);
  }

  SweepReport write_report() {
    SweepReport report{sweep_, collect_results(sweep_, runs_, costs_, options_.suite_roots),
                       options_.output.string(), options_.command};
    write_tables(report, options_.output, plot::PictureFormats::kSvgAndPng);
    if (!options_.results.empty()) {
      for (const SweepRun& run : runs_) {
        if (run.state != RunState::kFinished) continue;
        keep_result(sweep_, run, options_.results, options_.suite_roots);
      }
      write_tables(report, options_.results, plot::PictureFormats::kSvg);
    }
    return report;
  }

  void write_tables(SweepReport& report, const fs::path& out, plot::PictureFormats formats) {
    report.picture = std::any_of(report.results.begin(), report.results.end(),
                                 [](const VariantResult& r) { return !r.runs.empty(); });
    if (report.picture) {
      plot::PictureFolder& pictures = pictures_.try_emplace(out, out, formats).first->second;
      pictures.write("values", values_svg(report));
      pictures.write("curves", curves_svg(report));
    }
    report.grids = grids_in(out);
    write_file_atomic(out / "table.md", to_markdown(report));
    write_file_atomic(out / "table.csv", to_csv(report));
    write_file_atomic(out / "table.json", to_json(report));
  }

  // Returns the pictures of samples in a folder of results, relative to it, by variant.
  std::map<std::size_t, std::string> grids_in(const fs::path& out) const {
    std::map<std::size_t, std::string> grids;
    for (std::size_t v = 0; v < sweep_.variants.size(); ++v) {
      const SweepVariant& variant = sweep_.variants[v];
      const fs::path file =
          fs::path(variant.name) / cat("seed-", variant.seeds.front()) / "samples" / kSampleGrid;
      if (sweep_.samples.judge && fs::exists(out / file)) grids[v] = file.string();
    }
    return grids;
  }

  SweepStatus conclude() {
    const SweepReport report = write_report();
    bar_.clear();
    std::fputs(markdown_table(table_text(report)).c_str(), stdout);
    if (const std::vector<std::string> notes = suite_notes(report); !notes.empty()) {
      std::fputs(("\n" + markdown_list(notes)).c_str(), stdout);
    }
    const std::string features = feature_markdown(report);
    if (!features.empty()) std::fputs(("\n" + features).c_str(), stdout);
    const std::string samples = sample_markdown(report);
    if (!samples.empty()) std::fputs(("\n" + samples).c_str(), stdout);
    std::fflush(stdout);
    if (!failed_.empty())
      log_error(cat("failed runs (exit code): ", config::join(failed_),
                    "; run the same command again to retry"));
    if ((stopped_ && finished_ < selected_) || evaluated_ == SweepStatus::kStopped)
      log_info("stopped; run the same command again to continue");
    log_info(cat(finished_, " of ", selected_, " runs finished; tables and curves in ",
                 options_.output.string()));
    if (finished_ == selected_) return evaluated_;
    // A run that another process stopped does not hide a failed run.
    return stopped_ && (stopping_ || failed_.empty()) ? SweepStatus::kStopped
                                                      : SweepStatus::kFailed;
  }

  const SweepConfig& sweep_;
  const SweepOptions& options_;
  std::vector<SweepRun> runs_;
  std::vector<Complexity> costs_;  // by variant
  std::deque<SweepRun*> queue_;
  std::deque<RunSize> sizes_;  // of the runs in the queue
  std::vector<Active> active_;
  std::size_t selected_ = 0, finished_ = 0, remaining_at_start_ = 0;
  std::vector<std::string> failed_;
  double work_left_ = 0, work_done_ = 0;  // multiply-adds since the start
  bool stopping_ = false;                 // a stop was requested
  bool stopped_ = false;                  // a run was stopped, by us or by another process
  std::map<fs::path, plot::PictureFolder> pictures_;  // by folder
  SweepStatus evaluated_ = SweepStatus::kFinished;    // on suites, features, samples
  Clock::time_point start_{}, shown_{};
  ProgressBar bar_;
};

}  // namespace

SweepStatus run_sweep(const SweepConfig& sweep, const SweepOptions& options) {
  const ConfigSchemas schemas = options.registries->schemas();
  check_features(sweep, *options.registries);
  check_samples(sweep, *options.registries);
  check_folders({}, options.output, schemas);
  fs::create_directories(options.output);
  FolderLock lock(options.output);
  remove_stale_temporaries(options.output);
  std::vector<SweepRun> runs = plan_runs(sweep, options.output, options.only);
  check_folders(runs, options.output, schemas);
  check_judge_folder(sweep, options);
  for (const SweepRun& run : runs) {
    // A run that was killed after its summary does not start again, and cannot remove them.
    if (run.state == RunState::kFinished) remove_stale_temporaries(run.folder);
  }
  if (!options.results.empty()) fs::create_directories(options.results);
  adopt_kept_results(runs, options.results, schemas);
  if (options.shared) options.shared->adopt(runs);
  install_stop_signals();
  Sweep work(sweep, options, std::move(runs));
  const SweepStatus status = work.run();
  if (options.shared) options.shared->add(sweep.name, work.runs());
  return status;
}

}  // namespace dtn
