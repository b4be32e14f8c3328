#include <algorithm>
#include <cctype>
#include <map>

#include "apps/sweep/sweep_report.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  return (seeds.size() == 1 ? "seed " : "seeds ") + config::join(seeds);
}

// Returns the text of a choice if all variants share it, otherwise `several`.
template <class Describe>
std::string common(const SweepConfig& sweep, Describe describe, const char* several) {
  std::string first = describe(sweep.variants.front());
  for (const SweepVariant& v : sweep.variants) {
    if (describe(v) != first) return several;
  }
  return first;
}

std::string data_text(const SweepVariant& v) {
  const DataConfig& d = v.config.data;
  if (d.dataset == "synthetic") return "synthetic images";
  std::string folder = std::filesystem::path(d.root + "/").parent_path().filename().string();
  return folder.empty() || folder == d.dataset ? d.dataset : folder + " (" + d.dataset + ")";
}

std::string model_text(const SweepVariant& v) {
  const ModelConfig& m = v.config.model;
  const auto* family = standard_registries().models.find(m.family);
  const auto reads = [&](const char* key) {
    return !family || std::ranges::count(family->schema.reads, key) > 0;
  };
  std::string text = cat(m.preset, " at ");
  text += m.max_length > 0      ? cat(m.max_length, " tokens (")
          : reads("patch_size") ? cat(m.image_size, " (patch ", m.patch_size, ", ")
                                : cat(m.image_size, " (");
  text += cat(m.embed_dim, " channels, ", m.depth, " blocks");
  return cat(text, reads("num_heads") ? cat(", ", m.num_heads, " heads)") : ")");
}

std::string schedule_text(const SweepVariant& v) {
  const ScheduleConfig& s = v.config.schedule;
  return s.epochs ? counted(*s.epochs, "epochs") : counted(*s.steps, "steps");
}

std::string batch_text(const SweepVariant& v) {
  static const char* const names[] = {"fp32", "bf16", "tf32"};
  return cat("batches of ", v.config.train.batch_size, " in ",
             names[static_cast<int>(v.config.train.precision)]);
}

std::string description_of(const SweepConfig& sweep) {
  const std::vector<std::string> parts = {
      common(sweep, data_text, "several data sets"), common(sweep, model_text, "several models"),
      common(sweep, schedule_text, "several schedules"),
      common(sweep, batch_text, "several batch sizes"),
      common(
          sweep, [](const SweepVariant& v) { return seeds_text(v.seeds); }, "several seeds")};
  return config::join(parts, "; ");
}

std::vector<std::string> run_notes(const SweepReport& report) {
  std::vector<std::string> notes;
  for (const VariantResult& r : report.results) {
    const std::string& name = report.sweep.variants[r.variant].name;
    for (const auto& [seed, failure] : r.failures) {
      notes.push_back(cat(
          "`", name, "`, seed ", seed, ": failed with ",
          failure.code > 128 ? cat("signal ", failure.code - 128) : cat("exit code ", failure.code),
          failure.error.empty() ? "" : ": ", without_paths(failure.error, report.output)));
    }
    if (!r.open.empty())
      notes.push_back(cat("`", name, "`, ", seeds_text(r.open), ": not finished."));
  }
  return notes;
}

// Names the tasks if the variants learn different ones; otherwise empty.
std::string tasks_note(const SweepConfig& sweep) {
  std::map<std::string, std::vector<std::string>> labels;  // by task
  for (const SweepVariant& v : sweep.variants) labels[v.config.task].push_back(v.label);
  if (labels.size() == 1) return "";
  return cat("Each task evaluates in its own way: ",
             config::join(labels, "; ",
                          [](const auto& each) {
                            return cat("`", each.first, "`: ", config::join(each.second));
                          }),
             ".");
}

// Explains the sweep's columns; empty if there are none.
std::string further_columns_note(const SweepReport& report, bool spread) {
  const SweepConfig& sweep = report.sweep;
  if (sweep.columns.empty()) return "";
  const auto lacks_value = [](const VariantResult& r) {
    return !r.runs.empty() && std::ranges::any_of(r.columns, [](const auto& s) { return !s; });
  };
  return cat(config::join(sweep.columns, "; ", &SweepColumn::label), ": of the last evaluation",
             sweep.ema ? " of the averaged weights" : "",
             spread ? ", mean ± sample standard deviation over the seeds" : "",
             std::ranges::any_of(report.results, lacks_value) ? "; -: no run logged it" : "", ".");
}

}  // namespace

std::string figure_title(const FigureSchema& figure) {
  return figure.percent ? figure.title + " (%)" : figure.title;
}

std::string metric_title(const SweepConfig& sweep) {
  return (sweep.metric.best_of_all ? "best " : "") + figure_title(sweep.metric.figure);
}

std::string rate_title(const SweepConfig& sweep) {
  const auto is_of_sequences = [](const SweepVariant& v) { return v.config.model.max_length > 0; };
  if (std::ranges::all_of(sweep.variants, is_of_sequences)) return "sequences/s";
  return std::ranges::any_of(sweep.variants, is_of_sequences) ? "samples/s" : "images/s";
}

std::vector<std::string> column_notes(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  std::vector<std::string> notes;
  const bool spread = std::any_of(report.results.begin(), report.results.end(),
                                  [](const VariantResult& r) { return r.runs.size() > 1; });
  std::string metric = metric_title(sweep);
  if (!metric.starts_with("k-NN")) {
    metric[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(metric[0])));
  }
  notes.push_back(cat(metric,
                      sweep.metric.best_of_all ? " of all evaluations" : " of the last evaluation",
                      sweep.ema ? " of the averaged weights" : "",
                      spread ? ": mean ± sample standard deviation over the seeds" : "", "."));
  if (const std::string tasks = tasks_note(sweep); !tasks.empty()) notes.push_back(tasks);
  if (has_pairs(report.results)) {
    notes.push_back(
        "95 % interval and p: paired t-test of the difference to the baseline, over the seeds that "
        "both have.");
  }
  if (!sweep.milestones.empty()) {
    notes.push_back(
        cat("Epochs to a ", sweep.milestone_figure.title,
            ": interpolated between two evaluations, mean over the seeds; -: no run reached it."));
  }
  if (const std::string columns = further_columns_note(report, spread); !columns.empty()) {
    notes.push_back(columns);
  }
  const auto has_multiply_adds = [](const SweepVariant& v) {
    return v.paper_multiply_adds.has_value();
  };
  if (std::ranges::any_of(sweep.variants, has_multiply_adds)) {
    notes.emplace_back(
        "Multiply-adds of a forward pass of one sample, counted with a dense P as in the paper; "
        "computed: what the program executes.");
  }
  for (std::string& note : suite_notes(report)) notes.push_back(std::move(note));
  return notes;
}

std::string to_markdown(const SweepReport& report) {
  std::string out = cat("# ", report.sweep.title, "\n\n", description_of(report.sweep), "\n\n",
                        markdown_table(table_text(report)), "\n");
  for (const auto& notes : {report.sweep.notes, column_notes(report), run_notes(report)}) {
    out += markdown_list(notes);
  }
  if (const std::string table = corruption_markdown(report); !table.empty()) out += "\n" + table;
  if (const std::string table = feature_markdown(report); !table.empty()) out += "\n" + table;
  if (const std::string table = sample_markdown(report); !table.empty()) out += "\n" + table;
  if (report.picture) out += "\n![results](values.svg)\n\n![curves](curves.svg)\n";
  return out + cat("\n```sh\n", without_paths(report.command, report.output), "\n```\n");
}

std::string without_paths(const std::string& text, const std::string& folder) {
  const auto ends_path = [](char c) {
    return std::string_view(" \t'\"`,;:()=").find(c) != std::string_view::npos;
  };
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool starts = at == 0 || ends_path(text[at - 1]);
    std::size_t end = at;
    while (end < text.size() && !ends_path(text[end])) ++end;
    if (starts && folder != "." && text.compare(at, prefix.size(), prefix) == 0) {
      at += prefix.size();
    } else if (starts && text[at] == '/' && end - at > 1) {
      at = text.rfind('/', end - 1);
      out += "...";
    }
    end = std::max(end, at + 1);
    out += text.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace dtn
