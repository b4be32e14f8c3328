// The pages of runs: report.html of one, and the page that compares several.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "apps/report/detections_figure.h"
#include "apps/report/neighbors_figure.h"
#include "apps/report/picture_figures.h"
#include "apps/report/run_figures.h"
#include "apps/report/run_quantities.h"
#include "core/format.h"
#include "core/progress.h"
#include "dtn/core/check.h"
#include "dtn/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/weights_file.h"
#include "plot/text.h"

namespace dtn {

using namespace drawing;

namespace {

constexpr std::size_t kMaxRunCards = 6;  // of a comparison; more runs have a table alone
constexpr const char* kEndOfMeans =
    "Some seeds end at different epochs. A mean and its band end where the first seed ends. The "
    "last value is the mean at the last epoch that all seeds have; the table names this epoch.";

// Last and best value of an evaluation metric; missing if there are none.
struct Reached {
  double last = plot::kMissing, best = plot::kMissing, best_epoch = plot::kMissing;
};

Reached reached_in(const RunRecord& run, const std::string& split, const std::string& key,
                   bool higher_is_better) {
  Reached out;
  const plot::Series* curve = curve_in(run, split, key);
  if (!curve) return out;
  out.last = curve->y.back();
  for (std::size_t i = 0; i < curve->y.size(); ++i) {
    const double y = curve->y[i];
    if (!std::isfinite(out.best) || (higher_is_better ? y > out.best : y < out.best)) {
      out.best = y;
      out.best_epoch = curve->x[i];
    }
  }
  return out;
}

// Returns the figure that decides which checkpoint is the best. A run that lacks it is judged by
// the next one of its task, or by the loss.
FigureSchema judging_figure(const RunRecord& run, const Registries& registries) {
  const auto* task = registries.tasks.find(run.task.empty() ? "classify" : run.task);
  if (task) {
    for (const FigureSchema& figure : task->schema.figures) {
      if (std::isfinite(reached_in(run, "val", figure.name, true).best)) return figure;
    }
  }
  return {.name = "loss", .title = "loss", .higher_is_better = false};
}

// "top-1" becomes "Top-1"; "k-NN" and "mAP" stay.
std::string sentence_start(std::string text) {
  if (!text.starts_with("k-NN") && !text.starts_with("mAP")) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

std::string title_in(const RunRecord& run, const FigureSchema& figure) {
  if (figure.name == "top1") return accuracy_name(run.task, "top-1");
  return figure.title;
}

std::string value_text(const FigureSchema& figure, double value) {
  if (!std::isfinite(value)) return "-";
  return figure.percent ? format("%.2f %%", value) : plot::readable(value, 4);
}

std::string after_epoch(double epoch) { return "after epoch " + plot::readable(epoch, 4); }

void add_result_cards(const RunRecord& run, const FigureSchema& figure,
                      std::vector<plot::Card>& out) {
  const Reached last = reached_in(run, "val", figure.name, figure.higher_is_better);
  if (!std::isfinite(last.best)) return;
  const std::string title = title_in(run, figure);
  const double count = number_of(member(run.summary, "count"));
  const std::string counted_images = count > 0 ? format(", %.0f samples", count) : std::string();
  const plot::Series* curve = curve_in(run, "val", figure.name);
  out.push_back({sentence_start(title), value_text(figure, last.last),
                 cat("last evaluation, ", after_epoch(curve->x.back()), counted_images)});
  const bool averaged = text_of(member(run.summary, "best.weights")) == "ema";
  const Reached best =
      averaged ? reached_in(run, "val_ema", figure.name, figure.higher_is_better) : last;
  out.push_back({"Best " + title, value_text(figure, best.best),
                 cat(after_epoch(best.best_epoch), averaged ? ", averaged weights" : "")});
}

void add_loss_card(const RunRecord& run, const FigureSchema& judging,
                   std::vector<plot::Card>& out) {
  const FigureSchema loss{.name = "loss", .title = "loss", .higher_is_better = false};
  const Reached evaluated = reached_in(run, "val", "loss", false);
  const Reached trained = reached_in(run, kTraining, "loss", false);
  const std::string training = value_text(loss, trained.last);
  if (!std::isfinite(evaluated.best)) {
    if (std::isfinite(trained.best)) out.push_back({"Training loss", training, "last logged step"});
  } else if (judging.name != "loss") {
    out.push_back({"Evaluation loss", value_text(loss, evaluated.last),
                   cat("best ", value_text(loss, evaluated.best), "; training ", training)});
  }
}

// Sum of a number over all attempts.
double sum_of_attempts(const RunRecord& run, const char* key) {
  double sum = 0;
  for (const AnalysisJson& attempt : run.attempts) sum += number_of(member(attempt, key));
  return sum;
}

void add_time_card(const RunRecord& run, std::vector<plot::Card>& out) {
  double seconds = number_of(member(run.summary, "wall_seconds"));
  double rate = number_of(member(run.summary, "images_per_second"));
  std::string device = text_of(member(run.summary, "device"));
  if (!run.summary.is_object() && run.attempts.is_array() && !run.attempts.empty()) {
    seconds = sum_of_attempts(run, "seconds");
    rate = sum_of_attempts(run, "samples") / sum_of_attempts(run, "training_seconds");
    device = text_of(member(run.attempts.back(), "device"));
  }
  if (!std::isfinite(seconds)) return;
  const bool sequences = !value_of(run.values, "model.max_length").empty() &&
                         value_of(run.values, "model.max_length") != "0";
  std::string note = device;
  if (std::isfinite(rate) && rate > 0) {
    note = cat(plot::readable(rate, 3), sequences ? " sequences/s" : " images/s",
               device.empty() ? "" : ", ", device);
  }
  out.push_back({run.summary.is_object() ? "Time" : "Time so far", format_duration(seconds), note});
}

// Number of weights in the newest checkpoint of a run; 0: none can be read.
double count_weights(const std::filesystem::path& folder) {
  double count = 0;
  try {
    const auto file = find_weights(folder);
    if (!file) return 0;
    const TensorFile weights = read_safetensors(*file, {.verify_checksums = false, .map = true});
    for (const auto& [name, tensor] : weights.tensors) {
      count += static_cast<double>(tensor.shape().numel());
    }
  } catch (const std::exception&) {  // a training that still runs may be replacing it
    return 0;
  }
  return count;
}

std::string millions(double count) {
  return count >= 1e6   ? plot::readable(count / 1e6, 3) + " M"
         : count >= 1e3 ? plot::readable(count / 1e3, 3) + " k"
                        : plot::readable(count);
}

// Joins the texts that are not empty.
std::string joined_texts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    if (!text.empty()) out += cat(out.empty() ? "" : ", ", text);
  }
  return out;
}

void add_model_cards(const RunRecord& run, double weights, std::vector<plot::Card>& out) {
  const std::string preset = value_of(run.values, "model.preset");
  const std::string size = value_of(run.values, "model.image_size");
  const std::string norm = value_of(run.values, "model.norm.type");
  const std::string pixels = size.empty() ? "" : cat(size, " pixels");
  if (weights > 0) {
    out.push_back({"Weights", millions(weights), joined_texts({preset, norm, pixels})});
  } else if (!preset.empty()) {
    out.push_back({"Model", preset, joined_texts({norm, pixels})});
  }
  const std::string data = value_of(run.values, "data.dataset");
  if (!data.empty()) out.push_back({"Data", data, value_of(run.values, "data.root")});
}

std::vector<std::string> lead_of(const RunRecord& run) {
  std::vector<std::string> lead;
  const bool over = run.summary.is_object();
  if (const auto diverged = run.diverged_at()) {
    const std::string last = text_of(member(run.summary, "last_checkpoint"));
    lead.push_back(cat("Diverged at step ", *diverged, ". ",
                       last.empty() ? "No checkpoint has a finite loss."
                                    : "The newest checkpoint with a finite loss is " + last + "."));
  } else {
    lead.push_back(cat(over ? "Finished" : "In progress", " at step ", run.step, ", epoch ",
                       plot::readable(run.epoch, 4), "."));
  }
  for (const auto& [step, text] : run.warnings) {
    lead.push_back(cat("Warning at step ", step, ": ", text, "."));
  }
  return lead;
}

// The config, and where it differs from the defaults.
plot::Section config_section(const RunRecord& run, const Registries& registries) {
  plot::Section section{.title = "Config", .preformatted = run.config};
  const auto defaults = defaults_for(run.values, registries.schemas());
  if (!defaults) return section;
  const std::vector<std::string> names = {"this run", "default"};
  const plot::Table table = differing_values(names, std::vector{run.values, *defaults});
  if (table.rows.empty()) return section;
  section.title = cat("Config: ", counted(table.rows.size(), "keys"),
                      table.rows.size() == 1 ? " differs" : " differ", " from the defaults of ",
                      value_of(run.values, "model.preset"));
  section.tables.push_back({.table = table});
  return section;
}

// Returns the keys that differ between groups, by their first runs. Nothing if there are none.
std::vector<plot::Section> config_differences_of(std::span<const RunGroup> groups) {
  std::vector<std::string> names;
  std::vector<ConfigValues> configs;
  for (const RunGroup& group : groups) {
    names.push_back(group.label);
    configs.push_back(group.runs.front().values);
    if (group.runs.size() > 1) {
      std::erase_if(configs.back(), [](const auto& value) { return value.first == "seed"; });
    }
  }
  plot::Table table = differing_values(names, configs);
  if (table.rows.empty()) return {};
  const std::string title = cat("Config: ", counted(table.rows.size(), "keys"),
                                table.rows.size() == 1 ? " differs" : " differ");
  return {{.title = title, .tables = {{.table = std::move(table)}}}};
}

// Says how to make the pictures of neighbours that a run without evaluations lacks.
plot::Section advice_on_neighbors(const std::filesystem::path& folder) {
  return {
      .title = "Nearest neighbours",
      .paragraphs = {"No evaluation has drawn nearest neighbours. This command writes a page of "
                     "them, from the newest checkpoint:"},
      .preformatted = cat("dtn-eval --checkpoint ", folder.string(),
                          " --task knn --save-neighbors neighbors.html")};
}

// Says how to find out where the model is wrong.
plot::Section advice_on_errors(const std::filesystem::path& folder) {
  return {
      .title = "Errors",
      .paragraphs = {"This command writes a page on where the best checkpoint is wrong: confused "
                     "classes, surely wrong images, figures of each class, calibration:"},
      .preformatted = cat("dtn-eval --checkpoint ", shell_quoted(folder.string()), " --report ",
                          shell_quoted((folder / "errors").string()))};
}

}  // namespace

void write_run_report(const std::filesystem::path& folder, const Registries& registries) {
  const RunGroup group{{}, {read_run_record(folder)}};
  const RunRecord& run = group.runs.front();
  const FigureSchema figure = judging_figure(run, registries);
  plot::Page page{.title = run.name, .lead = lead_of(run)};
  add_result_cards(run, figure, page.cards);
  add_loss_card(run, figure, page.cards);
  add_time_card(run, page.cards);
  add_model_cards(run, count_weights(folder), page.cards);
  page.folded.push_back(config_section(run, registries));
  page.sections.push_back({"Curves", {}, curve_figures({&group, 1})});
  const PictureTexts texts = picture_texts(run.task);
  if (auto pictures = picture_figures(run.pictures, texts); !pictures.empty()) {
    page.sections.push_back({texts.section, {}, std::move(pictures)});
  }
  for (plot::Section& section : detections_sections(folder)) {
    page.sections.push_back(std::move(section));
  }
  if (auto gallery = neighbors_gallery(run.neighbors, run.neighbors_png)) {
    page.sections.push_back({.title = gallery->title, .galleries = {*gallery}});
  } else if (compares_neighbors(run.task)) {
    page.sections.push_back(advice_on_neighbors(folder));
  }
  const bool has_classes = run.task == "classify" || run.task == "multilabel";
  if (has_classes && !run.evaluations.empty()) page.sections.push_back(advice_on_errors(folder));
  if (std::vector<plot::Figure> inner = inner_figures(run); !inner.empty()) {
    page.sections.push_back({"Inside the model", {}, std::move(inner)});
  }
  write_file_atomic(folder / "report.html", plot::html(page));
}

namespace {

// A value after the last evaluation that all runs of a group have: the mean over the runs.
struct LastMean {
  double value = plot::kMissing;  // missing: a run has no evaluation, or they share no epoch
  double epoch = plot::kMissing;
  bool shortened = false;  // a run has later evaluations
};

LastMean last_mean(const RunGroup& group, const std::string& key) {
  if (group.runs.size() == 1) {
    return {.value = reached_in(group.runs.front(), "val", key, true).last};
  }
  const GroupCurves curves = curves_in(group, "val", key);
  const plot::Series mean = plot::mean_of(curves.runs);
  if (curves.runs.size() < group.runs.size() || mean.y.empty()) return {};
  return {mean.y.back(), mean.x.back(), curves.shortened};
}

// Means over the runs of a group, and the steps at which runs diverged. `best` is the mean of the
// best value of each run.
struct GroupResult {
  LastMean figure, loss;
  double best = 0, best_epoch = 0;
  plot::Range epochs = {};  // of the ends of the runs
  std::string diverged = {};
};

GroupResult result_of(const RunGroup& group, const FigureSchema& figure) {
  GroupResult out{.figure = last_mean(group, figure.name), .loss = last_mean(group, "loss")};
  const auto n = static_cast<double>(group.runs.size());
  for (const RunRecord& run : group.runs) {
    const Reached reached = reached_in(run, "val", figure.name, figure.higher_is_better);
    out.best += reached.best / n;
    out.best_epoch += reached.best_epoch / n;
    out.epochs.take_in(run.epoch);
    if (const auto step = run.diverged_at()) {
      out.diverged += cat(out.diverged.empty() ? ", diverged at step " : ", ", *step);
    }
  }
  return out;
}

// Names the epoch of a value if the group has later evaluations.
std::string text_of_last(const LastMean& last, const std::string& value) {
  return last.shortened ? cat(value, " (epoch ", plot::readable(last.epoch, 4), ")") : value;
}

std::string text_of_epochs(const plot::Range& epochs) {
  if (epochs.empty()) return "-";
  const std::string last = plot::readable(epochs.high);
  return epochs.low < epochs.high ? cat(plot::readable(epochs.low), " to ", last) : last;
}

void add_to_overview(const RunGroup& group, const GroupResult& result, const FigureSchema& figure,
                     plot::Page& page) {
  const auto number = [&](double v) {
    if (!std::isfinite(v)) return std::string("-");
    return figure.percent ? format("%.2f", v) : plot::readable(v, 4);
  };
  const double loss = result.loss.value;
  page.overview.rows.push_back(
      {group.label, cat(group.runs.size()), text_of_epochs(result.epochs) + result.diverged,
       text_of_last(result.figure, number(result.figure.value)), number(result.best),
       text_of_last(result.loss, std::isfinite(loss) ? format("%.4f", loss) : "-")});
  if (!std::isfinite(result.figure.value)) return;
  const std::string title = title_in(group.runs.front(), figure);
  const std::string at = result.figure.shortened ? " " + after_epoch(result.figure.epoch) : "";
  page.cards.push_back({group.label, value_text(figure, result.figure.value),
                        cat(title, at, "; best ", value_text(figure, result.best), " ",
                            group.runs.size() > 1 ? cat("in ", group.runs.size(), " runs")
                                                  : after_epoch(result.best_epoch))});
}

}  // namespace

std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures,
                            const Registries& registries) {
  plot::Page page{.title = title};
  const FigureSchema figure = judging_figure(groups.front().runs.front(), registries);
  const std::string heading = title_in(groups.front().runs.front(), figure);
  page.overview.columns = {"run",   "seeds",
                           "epoch", cat(heading, figure.percent ? " (%)" : "", ", last"),
                           "best",  "loss, last"};
  bool shortened = false;
  for (const RunGroup& group : groups) {
    const GroupResult result = result_of(group, figure);
    add_to_overview(group, result, figure, page);
    shortened = shortened || result.figure.shortened || result.loss.shortened;
  }
  if (shortened) page.lead.push_back(kEndOfMeans);
  if (groups.size() > kMaxRunCards) page.cards.clear();
  page.folded = config_differences_of(groups);
  page.sections.push_back({"Curves", {}, figures});
  return plot::html(page);
}

}  // namespace dtn
