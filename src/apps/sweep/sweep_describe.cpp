#include <algorithm>
#include <cmath>

#include "apps/sweep/feature_runs.h"
#include "apps/sweep/known_runs.h"
#include "apps/sweep/sample_runs.h"
#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_results.h"
#include "apps/sweep/sweep_size.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

// Returns the mean time of finished runs, or nothing.
std::optional<double> seconds_of_finished(const VariantResult& result) {
  std::vector<double> seconds;
  for (const RunResult& run : result.runs) {
    if (std::isfinite(run.wall_seconds)) seconds.push_back(run.wall_seconds);
  }
  auto s = statistics_of(seconds);
  return s ? std::optional(s->mean) : std::nullopt;
}

double estimated_seconds(const ExperimentConfig& config, const SizeCache::Entry& run,
                         const Complexity& cost, Device device, const Registries& registries) {
  const double seconds =
      profile_seconds_per_sample(config, run.data.train, cost.multiply_adds, device, registries);
  return time_of_run(config, run.size, seconds, 0, device).total();
}

std::string state_text(const SweepRun& run, std::int64_t steps) {
  switch (run.state) {
    case RunState::kFinished: return "finished";
    case RunState::kFailed: return cat("failed (", run.failure->code, "), will be retried");
    case RunState::kStarted: return cat("started, at step ", run.step, " of ", steps);
    case RunState::kToDo: break;
  }
  return "to do";
}

// Returns the end time of the last run. Each of `jobs` workers takes the next run when it is free.
double makespan(const std::vector<double>& seconds, int jobs) {
  std::vector<double> free(static_cast<std::size_t>(jobs), 0);
  for (double s : seconds) *std::min_element(free.begin(), free.end()) += s;
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

SweepForecast describe_sweep(const SweepConfig& sweep, const SweepOptions& options) {
  check_features(sweep, *options.registries);
  check_samples(sweep, *options.registries);
  std::vector<SweepRun> runs = plan_runs(sweep, options.output, options.only);
  check_folders(runs, options.output, options.registries->schemas());
  check_judge_folder(sweep, options);
  adopt_kept_results(runs, options.results, options.registries->schemas());
  if (options.shared) options.shared->adopt(runs);
  const std::vector<Complexity> costs = costs_of(sweep, *options.registries);
  const std::vector<VariantResult> results =
      collect_results(sweep, runs, costs, options.suite_roots);
  const Device device = parse_device(options.device);
  int width = 3;
  for (const SweepRun& run : runs) width = std::max(width, static_cast<int>(run.id.size()));
  std::string out = cat(sweep.title, "\n\n") + format("%-*s %10s %12s %10s  %s\n", width, "run",
                                                      "steps", "parameters", "time", "state");
  SizeCache sizes(device, *options.registries, SizeCache::kMakeUpWhatIsMissing);
  std::vector<double> left;
  std::vector<std::optional<double>> seconds(sweep.variants.size());  // per whole run
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] = seconds_of_finished(results[i]);
  }
  for (const SweepRun& run : runs) {
    if (!run.selected) continue;
    const std::string same = options.shared ? options.shared->same_as(run) : "";
    if (run.state != RunState::kFinished && !same.empty()) {
      out += format("%-*s %10s %12s %10s  the same as %s\n", width, run.id.c_str(), "", "", "",
                    same.c_str());
      continue;
    }
    std::int64_t steps = run.step;
    auto& whole = seconds[run.variant];
    if (run.state != RunState::kFinished) {
      const SizeCache::Entry& known = sizes.of(run.config);
      steps = known.size.steps;
      if (!whole) {
        whole =
            estimated_seconds(run.config, known, costs[run.variant], device, *options.registries);
      }
      left.push_back(*whole * static_cast<double>(steps - run.step) / static_cast<double>(steps));
    }
    out += format("%-*s %10lld %12lld %10s  ", width, run.id.c_str(), static_cast<long long>(steps),
                  static_cast<long long>(results[run.variant].cost.parameters),
                  whole ? format_duration(*whole).c_str() : "?");
    out += state_text(run, steps) + "\n";
  }
  if (!sizes.note().empty()) out += "\n" + sizes.note();
  SweepForecast forecast;
  forecast.left = left.size();
  forecast.evaluations = features_left(sweep, runs);
  if (!left.empty()) forecast.seconds = makespan(left, options.jobs);
  forecast.samples = samples_left(sweep, runs);
  if (left.empty() && forecast.evaluations == 0 && forecast.samples == 0)
    out += "\nnothing is left to do\n";
  if (!left.empty()) {
    out += cat("\n", counted(left.size(), "runs"), " left, about ",
               format_duration(forecast.seconds), " with --jobs ", options.jobs, " and --threads ",
               options.threads, " (without the time for loading data)\n");
  }
  if (forecast.evaluations > 0) {
    out += cat("\n", counted(forecast.evaluations, "evaluations"),
               " of features left; their time is not estimated\n");
  }
  if (forecast.samples > 0) {
    out += cat("\n", counted(forecast.samples, "evaluations"),
               " of samples left; their time, and that of training the judge, is not estimated\n");
  }
  for (const std::string& note : sweep.notes) out += cat("note: ", note, "\n");
  forecast.text = out + cat("output: ", options.output.string(), "\n");
  if (options.shared) options.shared->add(sweep.name, runs);
  return forecast;
}

}  // namespace dtn
