#include <algorithm>
#include <cstdio>

#include "apps/sweep/known_runs.h"
#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_report.h"
#include "apps/sweep/sweep_size.h"
#include "config/document.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "plot/chart.h"
#include "plot/page.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

std::size_t runs_done(const SweepReport& report) {
  std::size_t done = 0;
  for (const VariantResult& r : report.results) done += r.runs.size();
  return done;
}

std::size_t runs_in_all(const SweepReport& report) {
  std::size_t all = 0;
  for (const SweepVariant& v : report.sweep.variants) all += v.seeds.size();
  return all;
}

std::string state_text(const SweepReport& report) {
  const std::size_t done = runs_done(report), all = runs_in_all(report);
  if (done == all) return done == 1 ? "1 run, finished" : cat("all ", done, " runs finished");
  return done == 0 ? "not run yet" : cat(done, " of ", all, " runs finished");
}

// Draws the paper's figures as one row of bars and ours as another, with the spread over the seeds.
plot::Figure bars_of(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  plot::Chart chart;
  chart.title = sweep.title;
  chart.subtitle = state_text(report);
  chart.y.label = metric_title(sweep);
  plot::Series paper{.label = "paper"}, ours{.label = "here"};
  for (const VariantResult& r : report.results) {
    const SweepVariant& variant = sweep.variants[r.variant];
    chart.x.categories.push_back(variant.label);
    paper.y.push_back(variant.paper.value_or(plot::kMissing));
    ours.y.push_back(r.metric ? r.metric->mean : plot::kMissing);
    ours.low.push_back(r.metric ? r.metric->min : plot::kMissing);
    ours.high.push_back(r.metric ? r.metric->max : plot::kMissing);
  }
  ours.style = 1;
  chart.series = {paper, ours};
  const std::string description =
      cat(metric_title(sweep), " of each row in the paper and here; ", state_text(report));
  plot::Figure figure;
  figure.name = sweep.name;
  figure.title = sweep.title;
  figure.caption = "Whiskers: minimum and maximum over our seeds.";
  figure.description = description;
  figure.svg = plot::draw_bars(chart, description);
  chart.width = plot::kPhoneWidth;
  figure.phone_svg = plot::draw_bars(chart, description);
  const TableText table = table_text(report);
  figure.table = {table.columns, table.rows};
  return figure;
}

// Returns the page: every table of a paper beside our results. `reports` has the order of the
// collection's tables that have a sweep.
std::string collection_page(const SweepCollection& collection,
                            std::span<const SweepReport> reports) {
  plot::Page page;
  page.title = collection.title;
  page.overview.columns = {"table", "runs done", "of"};
  std::size_t next = 0;
  for (const CollectedSweep& table : collection.tables) {
    if (!table.sweep) {
      page.overview.rows.push_back({table.title, "not yet", "-"});
      page.sections.push_back({table.title, {"Not yet: " + table.not_yet + "."}, {}});
      continue;
    }
    const SweepReport& report = reports[next++];
    page.overview.rows.push_back({table.title, cat(runs_done(report)), cat(runs_in_all(report))});
    page.sections.push_back({table.title, {}, {bars_of(report)}});
  }
  page.lead = {cat("The tables of the paper, each with its results and ours; ", reports.size(),
                   " of ", collection.tables.size(), " tables have a sweep.")};
  return plot::html(page);
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
      throw ConfigError(cat("--only ", name, ": the collection has no such sweep; its sweeps are ",
                            config::join(sweeps_, ", ", &SweepConfig::name)));
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
