#include "apps/sweep/collection_page.h"

#include "apps/sweep/norm_cost_table.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "plot/chart.h"

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
  plot::Chart chart{
      .title = sweep.title, .subtitle = state_text(report), .width = 720, .height = 430};
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
  figure.caption = cat("Whiskers: minimum and maximum over our seeds. ",
                       config::join(column_notes(report), " "));
  figure.description = description;
  figure.svg = plot::draw_bars(chart, description);
  chart.width = plot::kPhoneWidth;
  figure.phone_svg = plot::draw_bars(chart, description);
  const TableText table = table_text(report);
  figure.table = {table.columns, table.rows};
  return figure;
}

// The section of a sweep: its notes, its figure, and the tables of corruption errors, features
// and samples, if there are any.
plot::Section section_of(const SweepReport& report) {
  plot::Section section{report.sweep.title, report.sweep.notes, {bars_of(report)}};
  if (const TableText ce = ce_table(report); !ce.columns.empty()) {
    section.tables.push_back(
        {.title = kCeTitle, .table = {ce.columns, ce.rows}, .notes = ce_notes(report)});
  }
  if (const TableText features = feature_table(report); !features.columns.empty()) {
    section.tables.push_back({.title = feature_title(report.sweep),
                              .table = {features.columns, features.rows},
                              .notes = feature_notes(report)});
  }
  if (const TableText samples = sample_table(report); !samples.columns.empty()) {
    section.tables.push_back({.title = kSampleTitle,
                              .table = {samples.columns, samples.rows},
                              .notes = sample_notes(report)});
  }
  return section;
}

}  // namespace

CollectionPage::CollectionPage(const std::string& title) {
  page_.title = title;
  page_.overview.columns = {"table", "runs done", "of"};
}

void CollectionPage::add_table(const SweepReport& report) {
  ++tables_;
  ++sweeps_;
  page_.overview.rows.push_back(
      {report.sweep.title, cat(runs_done(report)), cat(runs_in_all(report))});
  page_.sections.push_back(section_of(report));
}

void CollectionPage::add_figure(const CollectedSweep& entry, const FigureStatus& status,
                                const FigurePictures& pictures) {
  const SweepFigure& figure = *entry.figure;
  const bool made = status.state == FigureState::kMade;
  ++figures_;
  made_ += made;
  page_.overview.rows.push_back({entry.title, made ? "made" : "not made yet", "-"});
  plot::Section section{entry.title, {}, pictures.shown};
  if (!figure.runs.empty()) {
    section.paragraphs.push_back(cat("Runs: ", config::join(figure.runs, ", ", run_name), "."));
  }
  if (!made) {
    section.paragraphs.push_back(cat("Not made yet: ", status.text, "."));
  } else if (!figure.runs.empty()) {
    section.paragraphs.push_back(
        cat("All numbers and pictures: figures/", figure.name, "/report.html."));
  }
  if (!pictures.missing.empty()) {
    section.paragraphs.push_back(
        cat("dtn-analyze did not draw ", config::join(pictures.missing), " for these runs."));
  }
  page_.sections.push_back(std::move(section));
}

void CollectionPage::add_costs(const std::string& title, const NormCosts& costs,
                               const Registries& registries) {
  const TableText table = norm_cost_table(costs, registries);
  page_.overview.rows.push_back({title, "no runs needed", "-"});
  plot::Section section{title, norm_cost_notes(costs), {}};
  section.tables.push_back({.table = {table.columns, table.rows}});
  page_.sections.push_back(std::move(section));
}

void CollectionPage::add_absent(const CollectedSweep& entry) {
  ++tables_;
  page_.overview.rows.push_back({entry.title, "not yet", "-"});
  page_.sections.push_back({entry.title, {"Not yet: " + entry.not_yet + "."}, {}});
}

std::string CollectionPage::html() const {
  plot::Page page = page_;
  page.lead = {cat("The tables of the paper, each with its results and ours; ", sweeps_, " of ",
                   tables_, " tables have a sweep.")};
  if (figures_ > 0) {
    page.lead.push_back(cat("Figures made from the runs: ", made_, " of ", figures_, "."));
  }
  return plot::html(page);
}

}  // namespace dtn
