#include "apps/sweep/collection_page.h"

#include <algorithm>

#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/chart.h"
#include "plot/page.h"

namespace dtn {
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

}  // namespace

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

}  // namespace dtn
