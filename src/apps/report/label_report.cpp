#include "apps/report/label_report.h"

#include <algorithm>
#include <tuple>

#include "apps/report/label_report_figures.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::size_t kShownWrong = 48;

std::vector<std::string> lead_of(const LabelReport& report, std::size_t wrong) {
  const MultilabelFigures& f = report.figures;
  const auto measured =
      std::ranges::count_if(f.classes, [](const LabelFigures& of) { return of.support > 0; });
  std::vector<std::string> lead = {
      format("mAP %.4f", f.map) + cat(", the mean over the ", counted(measured, "classes"),
                                      " that occur, of ", report.classes.size(), "."),
      format("At the threshold %.4f: micro F1 %.4f, macro F1 %.4f.", f.threshold, f.f1_micro,
             f.f1_macro),
      cat(f.count - static_cast<std::int64_t>(wrong), " of ", counted(f.count, report.noun),
          " have exactly the predicted classes.")};
  if (report.skipped > 0) {
    lead.push_back(counted(report.skipped, "damaged " + report.noun) + " left out.");
  }
  lead.insert(lead.end(), report.lead.begin(), report.lead.end());
  return lead;
}

// Lists decisions of a sample: "cat (3.1 %), dog (12.0 %)".
std::string listed(const LabelReport& report, const std::vector<LabelDecision>& decisions,
                   bool truth) {
  constexpr std::size_t kMost = 4;
  std::string text;
  std::size_t count = 0;
  for (const LabelDecision& decision : decisions) {
    if (!decision.is_wrong() || decision.truth != truth) continue;
    if (++count > kMost) continue;
    text += cat(text.empty() ? "" : ", ", report.class_name(decision.label), " (",
                percent(decision.probability), ")");
  }
  return count > kMost ? cat(text, " and ", count - kMost, " more") : text;
}

// Says what is wrong with a sample: "missed: cat (3.1 %); not there: dog (98.0 %)".
std::string errors_text(const LabelReport& report, const WrongSample& sample) {
  const std::vector<LabelDecision> decisions = decisions_of(report, sample.row);
  const std::string missed = listed(report, decisions, true);
  const std::string added = listed(report, decisions, false);
  return cat(missed.empty() ? "" : "missed: ", missed, missed.empty() || added.empty() ? "" : "; ",
             added.empty() ? "" : "not labelled: ", added);
}

plot::Section errors_section(const LabelReport& report, const std::vector<WrongSample>& wrong) {
  plot::Section section{.title = "Most surely wrong"};
  if (wrong.empty()) {
    section.paragraphs = {"No error."};
    return section;
  }
  if (!report.picture) {
    plot::SectionTable list;
    list.table.columns = {noun_form(report.noun, true), "errors", "loss"};
    for (const WrongSample& sample : wrong) {
      if (list.table.rows.size() == kShownWrong) break;
      list.table.rows.push_back({report.name(sample.index), errors_text(report, sample),
                                 format("%.3f", sample.worst.loss)});
    }
    section.tables = {std::move(list)};
    return section;
  }
  plot::Gallery gallery{
      .name = "worst",
      .title = section.title,
      .caption = cat("Wrong ", report.noun,
                     " by falling loss of their worst decision, as the model saw them. Missed: "
                     "labelled, but with a probability below the threshold. Not labelled: "
                     "predicted. Check the labels first: the surest errors are often wrong or "
                     "missing labels."),
      .rows = {},
      .pixelated = report.pixelated,
      .tiles = true};
  gallery.rows.push_back(pictures_of(report, wrong, kShownWrong, [&](const WrongSample& sample) {
    const std::string errors = errors_text(report, sample);
    return plot::GalleryPicture{.description = cat(report.name(sample.index), ": ", errors),
                                .text = errors,
                                .note = report.name(sample.index)};
  }));
  section.galleries = {std::move(gallery)};
  return section;
}

plot::SortedTable classes_table(const LabelReport& report) {
  plot::SortedTable sorted{
      .name = "classes",
      .title = "Classes",
      .caption = cat("Average precision (AP) judges the order of the ", report.noun,
                     " by probability, at every threshold. The others are measured at the "
                     "threshold. Recall: share of the ",
                     report.noun, " of a class for which it is predicted. Precision: share of the ",
                     report.noun,
                     " with the prediction that have the class. F1: their harmonic mean. All four "
                     "are in percent."),
      .table = {{"class", "AP", "F1", "recall", "precision", report.noun, "predicted"}, {}},
      .orders = {}};
  const auto number = [](bool defined, double fraction) {
    return defined ? format("%.1f", 100 * fraction) : std::string("-");
  };
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    const LabelFigures& f = report.figures.classes[c];
    sorted.table.rows.push_back(
        {report.classes[c], number(f.ap.has_value(), f.ap.value_or(0)),
         number(f.support + f.predicted > 0, f.f1), number(f.support > 0, f.recall),
         number(f.predicted > 0, f.precision), cat(f.support), cat(f.predicted)});
  }
  // Undefined values come last.
  sorted.orders = {
      order_by(report, "lowest AP", [](auto& f) { return std::tuple(!f.ap, f.ap.value_or(0)); }),
      order_by(report, "lowest F1",
               [](auto& f) { return std::tuple(f.support + f.predicted == 0, f.f1); }),
      order_by(report, "lowest recall",
               [](auto& f) { return std::tuple(f.support == 0, f.recall); }),
      order_by(report, "lowest precision",
               [](auto& f) { return std::tuple(f.predicted == 0, f.precision); }),
      order_by(report, "most " + report.noun, [](auto& f) { return -f.support; }),
      order_by(report, "fewest " + report.noun, [](auto& f) { return f.support; }),
      order_by(report, "label order", [](auto&) { return 0; })};
  return sorted;
}

}  // namespace

std::string label_report_page(const LabelReport& report) {
  const std::vector<WrongSample> wrong = worst_samples(report);
  plot::Page page{.title = report.title, .lead = lead_of(report, wrong.size())};
  page.sections.push_back(errors_section(report, wrong));
  page.sections.push_back({.title = "Classes", .sorted_tables = {classes_table(report)}});
  const bool any = std::ranges::any_of(report.figures.classes, &LabelFigures::support);
  if (any) {
    page.sections.push_back(
        {.title = "Thresholds", .figures = {threshold_figure(report), curves_figure(report)}});
  }
  page.footer = "All numbers of this page are in report.json.";
  return plot::html(page);
}

}  // namespace dtn
