#include "apps/report/class_report.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "apps/report/class_report_figures.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

double share_of(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

std::string calibration_text(const ClassificationFigures& figures) {
  const double gap = figures.confidence - figures.top1;
  const char* verdict = std::abs(gap) < 0.01 ? "about as sure as it should be"
                        : gap > 0            ? "too sure"
                                             : "not sure enough";
  return cat("Expected calibration error ", percent(figures.ece), ": the model is ", verdict,
             ", with a mean probability of ", percent(figures.confidence), " and ",
             percent(figures.top1), " right.");
}

std::string f1_text(const ClassificationFigures& figures) {
  const auto present = std::ranges::count_if(figures.classes, &ClassFigures::occurs);
  std::string text = format("Macro F1 %.4f", figures.macro_f1);
  if (present == std::ssize(figures.classes)) return text + ".";
  return text + format(", the mean over all %zu classes; %.4f over the %td that occur.",
                       figures.classes.size(), figures.macro_f1_present, present);
}

// Names the classes without a sample, or counts them.
std::string empty_classes_text(const ClassReport& report) {
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> empty;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    if (report.figures.classes[c].support == 0) empty.push_back(report.classes[c]);
  }
  if (empty.empty()) return "";
  const std::string text = cat("No ", noun_form(report.noun, true), " belongs to ");
  if (empty.size() <= kNamed) return cat(text, config::join(empty), ".");
  return cat(text, empty.size(), " of the ", report.classes.size(), " classes.");
}

std::vector<std::string> lead_of(const ClassReport& report) {
  const ClassificationFigures& figures = report.figures;
  const std::int64_t right = std::ranges::count(report.samples, false, &ClassifiedSample::is_wrong);
  std::vector<std::string> lead = {cat(right, " of ", counted(figures.count, report.noun),
                                       right == 1 ? " is" : " are",
                                       format(" right: top-1 %.2f %%", 100 * figures.top1))};
  if (figures.top_k.size() > 5) lead[0] += format(", top-5 %.2f %%", 100 * figures.top_k[4]);
  lead[0] += ".";
  lead.push_back(f1_text(figures));
  lead.push_back(calibration_text(figures));
  if (const std::string text = empty_classes_text(report); !text.empty()) lead.push_back(text);
  if (report.skipped > 0) {
    lead.push_back(counted(report.skipped, "damaged " + report.noun) + " left out.");
  }
  lead.insert(lead.end(), report.lead.begin(), report.lead.end());
  return lead;
}

std::string pair_title(const ClassReport& report, const Confusion& pair) {
  return cat(report.class_name(pair.truth), " taken for ", report.class_name(pair.prediction));
}

std::string pair_text(const ClassReport& report, const Confusion& pair) {
  const std::int64_t support = report.class_figures(pair.truth).support;
  return cat(pair.count, " of ", support, " (", percent(share_of(pair.count, support)), ")");
}

// Describes the picture of a sample for screen readers.
std::string described(const ClassReport& report, const ClassifiedSample& sample) {
  return cat(report.name(sample.index), ": ", report.class_name(sample.truth), ", taken for ",
             report.class_name(sample.prediction));
}

plot::Gallery pairs_gallery(const ClassReport& report, const std::vector<Confusion>& pairs,
                            const std::vector<ClassifiedSample>& worst) {
  plot::Gallery gallery{
      .name = "pairs",
      .title = "Most confused classes",
      .caption = cat("The most frequent confusions first. The pictures are what the model saw, "
                     "after resizing and cropping; those with the largest loss come first. Below "
                     "a picture: the probability of the wrong class."),
      .rows = {},
      .pixelated = report.pixelated,
      .tiles = true};
  for (const Confusion& pair : pairs) {
    if (gallery.rows.size() == kShownPairs) break;
    std::vector<ClassifiedSample> samples;
    std::ranges::copy_if(worst, std::back_inserter(samples), [&](const ClassifiedSample& s) {
      return s.truth == pair.truth && s.prediction == pair.prediction;
    });
    gallery.headings.push_back({pair_title(report, pair), pair_text(report, pair)});
    gallery.rows.push_back(
        pictures_of(report, samples, kPicturesOfPair, [&](const ClassifiedSample& sample) {
          return plot::GalleryPicture{.description = described(report, sample),
                                      .text = percent(sample.probability),
                                      .note = report.name(sample.index)};
        }));
  }
  return gallery;
}

plot::Gallery worst_gallery(const ClassReport& report, const std::vector<ClassifiedSample>& worst) {
  plot::Gallery gallery{.name = "worst",
                        .title = "Most surely wrong",
                        .caption = cat("Wrong ", report.noun,
                                       " by falling loss, as the model saw them. Check their "
                                       "labels first: the surest errors are often wrong labels."),
                        .rows = {},
                        .pixelated = report.pixelated,
                        .tiles = true};
  gallery.rows.push_back(
      pictures_of(report, worst, kShownWorst, [&](const ClassifiedSample& sample) {
        return plot::GalleryPicture{
            .description = described(report, sample),
            .text = cat(report.class_name(sample.truth), ", taken for ",
                        report.class_name(sample.prediction), ", ", percent(sample.probability)),
            .note = report.name(sample.index)};
      }));
  return gallery;
}

plot::SectionTable pairs_list(const ClassReport& report, const std::vector<Confusion>& pairs) {
  plot::SectionTable list;
  list.table.columns = {"confusion", report.noun};
  for (const Confusion& pair : pairs) {
    if (list.table.rows.size() == kShownPairs) break;
    list.table.rows.push_back({pair_title(report, pair), pair_text(report, pair)});
  }
  return list;
}

plot::SectionTable worst_list(const ClassReport& report,
                              const std::vector<ClassifiedSample>& worst) {
  plot::SectionTable list;
  list.table.columns = {noun_form(report.noun, true), "truth", "prediction", "probability", "loss"};
  for (const ClassifiedSample& s : worst) {
    if (list.table.rows.size() == kShownWorst) break;
    list.table.rows.push_back({report.name(s.index), report.class_name(s.truth),
                               report.class_name(s.prediction), percent(s.probability),
                               format("%.3f", s.loss)});
  }
  return list;
}

// Returns the class that a class is taken for the most, such as "coat (12.0 %)".
std::string taken_for(const ClassReport& report, std::int64_t truth) {
  const Confusion* most = nullptr;
  for (const Confusion& entry : report.figures.confusions_of(truth)) {
    if (entry.prediction != truth && (!most || entry.count > most->count)) most = &entry;
  }
  if (!most) return "-";
  return cat(report.class_name(most->prediction), " (",
             percent(share_of(most->count, report.class_figures(truth).support)), ")");
}

plot::SortedTable classes_table(const ClassReport& report) {
  plot::SortedTable sorted{
      .name = "classes",
      .title = "Classes",
      .caption = cat("Recall: share of the ", report.noun,
                     " of a class that are predicted as it. "
                     "Precision: share of the ",
                     report.noun,
                     " predicted as a class that belong to it. F1: their harmonic mean. All three "
                     "are in percent."),
      .table = {{"class", "F1", "recall", "precision", report.noun, "predicted",
                 "most often taken for"},
                {}},
      .orders = {}};
  const auto number = [](bool defined, double fraction) {
    return defined ? format("%.1f", 100 * fraction) : std::string("-");
  };
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    const ClassFigures& f = report.figures.classes[c];
    sorted.table.rows.push_back(
        {report.classes[c], number(f.occurs(), f.f1), number(f.support > 0, f.recall),
         number(f.predicted > 0, f.precision), cat(f.support), cat(f.predicted),
         taken_for(report, static_cast<std::int64_t>(c))});
  }
  // Undefined values come last.
  sorted.orders = {
      order_by(report, "lowest F1", [](auto& f) { return std::tuple(!f.occurs(), f.f1); }),
      order_by(report, "lowest recall",
               [](auto& f) { return std::tuple(f.support == 0, f.recall); }),
      order_by(report, "lowest precision",
               [](auto& f) { return std::tuple(f.predicted == 0, f.precision); }),
      order_by(report, "most " + report.noun, [](auto& f) { return -f.support; }),
      order_by(report, "fewest " + report.noun, [](auto& f) { return f.support; }),
      order_by(report, "label order", [](auto&) { return 0; })};
  return sorted;
}

// Appends the sections on confused classes and on wrong samples.
void add_errors(const ClassReport& report, std::vector<plot::Section>& sections) {
  const std::vector<ClassifiedSample> worst = worst_first(report.samples);
  if (worst.empty()) {
    sections.push_back({.title = "Errors", .paragraphs = {"No error."}});
    return;
  }
  const std::vector<Confusion> pairs = confused_pairs(report.figures);
  plot::Section confused{.title = "Most confused classes"}, wrong{.title = "Most surely wrong"};
  if (report.picture) {
    confused.galleries = {pairs_gallery(report, pairs, worst)};
    wrong.galleries = {worst_gallery(report, worst)};
  } else {
    confused.tables = {pairs_list(report, pairs)};
    wrong.tables = {worst_list(report, worst)};
  }
  sections.push_back(std::move(confused));
  sections.push_back(std::move(wrong));
}

}  // namespace

std::string class_report_page(const ClassReport& report) {
  plot::Page page{.title = report.title, .lead = lead_of(report)};
  add_errors(report, page.sections);
  const bool any_wrong = std::ranges::any_of(report.samples, &ClassifiedSample::is_wrong);
  if (any_wrong || report.classes.size() <= kMatrixClasses) {
    page.sections.push_back({.title = "Confusion matrix", .figures = {confusion_figure(report)}});
  }
  page.sections.push_back({.title = "Classes", .sorted_tables = {classes_table(report)}});
  page.sections.push_back(
      {.title = "Probabilities", .figures = {reliability_figure(report), top_k_figure(report)}});
  page.footer = "All numbers of this page are in report.json.";
  return plot::html(page);
}

}  // namespace dtn
