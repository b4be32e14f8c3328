#include "apps/sweep/collection.h"

#include <algorithm>
#include <cstdio>

#include "apps/sweep/collection_page.h"
#include "apps/sweep/kept_results.h"
#include "apps/sweep/shared_runs.h"
#include "apps/sweep/sweep_size.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

// The sweeps of a collection, with the options of each.
class Tables {
 public:
  Tables(const SweepCollection& collection, const SweepOptions& options)
      : collection_(collection), options_(options) {
    for (const CollectedSweep& table : collection.tables) {
      if (table.sweep) sweeps_.push_back(&*table.sweep);
    }
    check_only();
  }

  const std::vector<const SweepConfig*>& sweeps() const { return sweeps_; }

  bool selected(const SweepConfig& sweep) const {
    return options_.only.empty() ||
           std::ranges::find(options_.only, sweep.name) != options_.only.end();
  }

  SweepOptions options_of(const SweepConfig& sweep, SharedRuns& shared) const {
    SweepOptions options = options_;
    options.only.clear();
    options.output /= sweep.name;
    if (!options.results.empty()) options.results /= sweep.name;
    options.shared = &shared;
    return options;
  }

  void write_page() {
    std::vector<SweepReport> reports;
    SharedRuns shared;
    costs_.resize(sweeps_.size());
    for (std::size_t i = 0; i < sweeps_.size(); ++i) {
      const SweepConfig& sweep = *sweeps_[i];
      const SweepOptions options = options_of(sweep, shared);
      std::vector<SweepRun> runs = plan_runs(sweep, options.output, {});
      adopt_kept_results(runs, options.results, options.registries->schemas());
      shared.adopt(runs);
      shared.add(sweep.name, runs);
      if (costs_[i].empty()) costs_[i] = costs_of(sweep, *options.registries);
      reports.push_back({sweep, collect_results(sweep, runs, costs_[i]), options.output, ""});
    }
    const std::string page = collection_page(collection_, reports);
    for (const fs::path& folder : {options_.output, options_.results}) {
      if (folder.empty()) continue;
      fs::create_directories(folder);
      write_file_atomic(folder / (collection_.name + ".html"), page);
    }
  }

 private:
  void check_only() const {
    for (const std::string& name : options_.only) {
      if (std::ranges::find(sweeps_, name, &SweepConfig::name) != sweeps_.end()) continue;
      std::string known;
      for (const SweepConfig* sweep : sweeps_) known += (known.empty() ? "" : ", ") + sweep->name;
      throw ConfigError(
          cat("--only ", name, ": the collection has no such sweep; its sweeps are ", known));
    }
  }

  const SweepCollection& collection_;
  const SweepOptions& options_;
  std::vector<const SweepConfig*> sweeps_;
  std::vector<std::vector<Complexity>> costs_;  // by sweep
};

}  // namespace

SweepStatus run_collection(const SweepCollection& collection, const SweepOptions& options) {
  Tables tables(collection, options);
  tables.write_page();
  SharedRuns shared;
  SweepStatus status = SweepStatus::kFinished;
  for (const SweepConfig* sweep : tables.sweeps()) {
    if (!tables.selected(*sweep)) continue;
    const SweepStatus one = run_sweep(*sweep, tables.options_of(*sweep, shared));
    tables.write_page();
    if (one == SweepStatus::kStopped) return one;
    if (one == SweepStatus::kFailed) status = one;
    if (one == SweepStatus::kFailed && !options.keep_going) break;
  }
  log_info(cat("all tables: ", (options.output / (collection.name + ".html")).string()));
  return status;
}

void describe_collection(const SweepCollection& collection, const SweepOptions& options) {
  const Tables tables(collection, options);
  SharedRuns shared;
  std::size_t left = 0;
  double seconds = 0;
  for (const CollectedSweep& table : collection.tables) {
    if (!table.sweep) {
      std::printf("%s\n\nnot yet: %s\n\n", table.title.c_str(), table.not_yet.c_str());
      continue;
    }
    if (!tables.selected(*table.sweep)) continue;
    const SweepForecast forecast =
        describe_sweep(*table.sweep, tables.options_of(*table.sweep, shared));
    std::printf("%s\n", forecast.text.c_str());
    std::fflush(stdout);  // the next table takes a while
    left += forecast.left;
    seconds += forecast.seconds;
  }
  std::printf("%s: %s left, about %s\n", collection.title.c_str(), counted(left, "runs").c_str(),
              format_duration(seconds).c_str());
}

}  // namespace dtn
