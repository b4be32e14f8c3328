#include <algorithm>
#include <cstdio>
#include <set>

#include "apps/sweep/collection_figures.h"
#include "apps/sweep/collection_page.h"
#include "apps/sweep/known_runs.h"
#include "apps/sweep/norm_cost_table.h"
#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "config/document.h"
#include "core/format.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

std::string describe_costs(const CollectedSweep& table, const Registries& registries) {
  std::string text =
      cat(table.title, "\n\n", markdown_table(norm_cost_table(*table.costs, registries)), "\n");
  for (const std::string& note : norm_cost_notes(*table.costs)) text += cat("note: ", note, "\n");
  return text + "\n";
}

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

  // `entry`: a sweep or a figure.
  bool selected(const auto& entry) const {
    return options_.only.empty() ||
           std::ranges::find(options_.only, entry.name) != options_.only.end();
  }

  SweepOptions options_of(const SweepConfig& sweep, SharedRuns& shared) const {
    SweepOptions options = options_;
    options.only.clear();
    options.output /= sweep.name;
    if (!options.results.empty()) options.results /= sweep.name;
    options.shared = &shared;
    return options;
  }

  CollectionRuns runs() const {
    CollectionRuns all;
    SharedRuns shared;
    for (const SweepConfig* sweep : sweeps_) {
      const SweepOptions options = options_of(*sweep, shared);
      std::vector<SweepRun>& runs = all[sweep->name] = plan_runs(*sweep, options.output, {});
      adopt_kept_results(runs, options.results, options.registries->schemas());
      shared.adopt(runs);
      shared.add(sweep->name, runs);
    }
    return all;
  }

  void write_page() {
    const CollectionRuns runs = this->runs();
    CollectionPage page(collection_.title);
    for (const CollectedSweep& entry : collection_.tables) {
      if (entry.figure) {
        add_figure(entry, runs, page);
      } else if (entry.sweep) {
        add_sweep(*entry.sweep, runs.at(entry.sweep->name), page);
      } else if (entry.costs) {
        page.add_costs(entry.title, *entry.costs, *options_.registries);
      } else {
        page.add_absent(entry);
      }
    }
    const std::string text = page.html();
    for (const fs::path& folder : {options_.output, options_.results}) {
      if (folder.empty()) continue;
      fs::create_directories(folder);
      write_file_atomic(folder / (collection_.name + ".html"), text);
    }
  }

  // Makes the selected figures whose runs are finished, each once. A failure does not stop the
  // others.
  SweepStatus make_figures() {
    SweepStatus status = SweepStatus::kFinished;
    const CollectionRuns runs = this->runs();
    for (const CollectedSweep& entry : collection_.tables) {
      if (!entry.figure || !selected(*entry.figure)) continue;
      const FigureState state = figure_status(*entry.figure, options_, runs).state;
      if (state == FigureState::kWaiting || state == FigureState::kMade) continue;
      if (!tried_.insert(entry.figure->name).second) continue;
      const SweepStatus one = make_or_report(*entry.figure, runs);
      if (one == SweepStatus::kStopped) return one;
      if (one == SweepStatus::kFailed) status = one;
    }
    return status;
  }

 private:
  void check_only() const {
    std::vector<std::string> names;
    for (const CollectedSweep& entry : collection_.tables) {
      if (entry.sweep) names.push_back(entry.sweep->name);
      if (entry.figure) names.push_back(entry.figure->name);
    }
    for (const std::string& name : options_.only) {
      if (std::ranges::find(names, name) != names.end()) continue;
      throw ConfigError(cat("--only ", name,
                            ": the collection has no such sweep or figure; it has ",
                            config::join(names)));
    }
  }

  void add_sweep(const SweepConfig& sweep, const std::vector<SweepRun>& runs,
                 CollectionPage& page) {
    std::vector<Complexity>& costs = costs_[sweep.name];
    if (costs.empty()) costs = costs_of(sweep, *options_.registries);
    page.add_table({sweep, collect_results(sweep, runs, costs, options_.suite_roots),
                    options_.output / sweep.name, ""});
  }

  void add_figure(const CollectedSweep& entry, const CollectionRuns& runs, CollectionPage& page) {
    const FigureStatus status = figure_status(*entry.figure, options_, runs);
    const bool made = status.state == FigureState::kMade;
    page.add_figure(entry, status, made ? pictures_of_made(*entry.figure) : FigurePictures());
  }

  // Reads the pictures of a figure the first time.
  const FigurePictures& pictures_of_made(const SweepFigure& figure) {
    const auto known = pictures_.find(figure.name);
    if (known != pictures_.end()) return known->second;
    return pictures_[figure.name] = pictures_of(figure, options_);
  }

  // A figure that cannot be made must not end the training of the next table.
  SweepStatus make_or_report(const SweepFigure& figure, const CollectionRuns& runs) {
    try {
      return make_figure(figure, options_, runs);
    } catch (const std::exception& e) {
      log_warn(cat(figure.name, ": ", e.what()));
      return SweepStatus::kFailed;
    }
  }

  const SweepCollection& collection_;
  const SweepOptions& options_;
  std::vector<const SweepConfig*> sweeps_;
  std::map<std::string, std::vector<Complexity>> costs_;  // by sweep
  std::map<std::string, FigurePictures> pictures_;        // of figures that are made, by name
  std::set<std::string> tried_;                           // figures
};

}  // namespace

SweepStatus run_collection(const SweepCollection& collection, const SweepOptions& options) {
  install_stop_signals();
  Tables tables(collection, options);
  SharedRuns shared;
  SweepStatus status = SweepStatus::kFinished;
  const auto make_figures = [&] {
    tables.write_page();
    const SweepStatus figures = tables.make_figures();
    if (figures == SweepStatus::kFailed) status = figures;
    tables.write_page();
    return figures;
  };
  if (make_figures() == SweepStatus::kStopped) return SweepStatus::kStopped;
  for (const SweepConfig* sweep : tables.sweeps()) {
    if (!tables.selected(*sweep)) continue;
    const SweepStatus one = run_sweep(*sweep, tables.options_of(*sweep, shared));
    if (one == SweepStatus::kStopped) {
      tables.write_page();
      return one;
    }
    if (one == SweepStatus::kFailed) status = one;
    if (make_figures() == SweepStatus::kStopped) return SweepStatus::kStopped;
    if (one == SweepStatus::kFailed && !options.keep_going) break;
  }
  log_info(cat("all tables: ", (options.output / (collection.name + ".html")).string()));
  return status;
}

namespace {

void describe_figure(const CollectedSweep& entry, const SweepOptions& options,
                     const CollectionRuns& runs) {
  const SweepFigure& figure = *entry.figure;
  std::printf("%s\n\n%s: %s\noutput: %s\n\n", entry.title.c_str(), figure.name.c_str(),
              figure_status(figure, options, runs).text.c_str(),
              folder_of_figure(figure, options).c_str());
}

}  // namespace

void describe_collection(const SweepCollection& collection, const SweepOptions& options) {
  const Tables tables(collection, options);
  const CollectionRuns runs = tables.runs();
  SharedRuns shared;
  std::size_t left = 0, evaluations = 0, samples = 0;
  double seconds = 0;
  for (const CollectedSweep& table : collection.tables) {
    if (table.figure) {
      if (tables.selected(*table.figure)) describe_figure(table, options, runs);
      continue;
    }
    if (table.costs) {
      std::fputs(describe_costs(table, *options.registries).c_str(), stdout);
      continue;
    }
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
    evaluations += forecast.evaluations;
    samples += forecast.samples;
    seconds += forecast.seconds;
  }
  std::string more =
      evaluations == 0 ? "" : cat(", and ", counted(evaluations, "evaluations"), " of features");
  if (samples > 0) more += cat(", and ", counted(samples, "evaluations"), " of samples");
  std::printf("%s: %s left, about %s%s\n", collection.title.c_str(), counted(left, "runs").c_str(),
              format_duration(seconds).c_str(), more.c_str());
}

}  // namespace dtn
