#include <algorithm>
#include <cctype>

#include "apps/sweep/sweep_report.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

int digits_of(const SweepConfig& sweep) { return sweep.metric.figure.percent ? 2 : 4; }

std::string signed_text(const SweepConfig& sweep, std::optional<double> value) {
  return value ? format("%+.*f", digits_of(sweep), *value) : "-";
}

// Formats with thousands separators: 5,710,672.
std::string count_text(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

std::string rate_text(double rate) { return format(rate < 100 ? "%.1f" : "%.0f", rate); }

// Escapes bars, which would end the cell.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  return (seeds.size() == 1 ? "seed " : "seeds ") + config::join(seeds);
}

// Width on a terminal: one column per UTF-8 character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string metric_cell(const SweepConfig& sweep, const VariantResult& r) {
  if (!r.metric) return r.failures.empty() ? "-" : "failed";
  std::string text = metric_text(sweep, r.metric->mean);
  if (r.metric->std) text += " ± " + metric_text(sweep, *r.metric->std);
  return r.failures.empty() ? text : cat(text, " (", r.failures.size(), " failed)");
}

std::string milestone_cell(const VariantResult& r, std::size_t i) {
  const Milestone& m = r.milestones[i];
  if (!m.epochs) return "-";
  std::string text = format("%.2f", *m.epochs);
  return m.reached == r.runs.size() ? text : cat(text, " (", m.reached, " of ", r.runs.size(), ")");
}

// Interval of the differences by seed: "[+0.31, +0.92]".
std::string interval_cell(const SweepConfig& sweep, const VariantResult& r) {
  if (!r.paired) return "-";
  return cat("[", signed_text(sweep, r.paired->low), ", ", signed_text(sweep, r.paired->high), "]");
}

std::string probability_cell(const VariantResult& r) {
  if (!r.paired) return "-";
  return r.paired->p < 0.001 ? "< 0.001" : format("%.3f", r.paired->p);
}

std::string robustness_cell(const VariantResult& r, const std::string& suite) {
  const auto at = r.suites.find(suite);
  if (at == r.suites.end()) return "-";
  const Statistics& s = at->second;
  return s.std ? format("%.1f ± %.1f", s.mean, *s.std) : format("%.1f", s.mean);
}

std::string robustness_paper_cell(const SweepVariant& variant, const std::string& suite) {
  const auto at = variant.paper_suites.find(suite);
  return at == variant.paper_suites.end() ? "-" : format("%.1f", at->second);
}

// Returns the result of any run on the suite, or null.
const RobustnessResult* any_result(const SweepReport& report, const std::string& suite) {
  for (const VariantResult& r : report.results) {
    for (const RunResult& run : r.runs) {
      const auto at = run.suites.find(suite);
      if (at != run.suites.end()) return &at->second;
    }
  }
  return nullptr;
}

bool has_pairs(std::span<const VariantResult> results) {
  return std::ranges::any_of(results, [](const VariantResult& r) { return r.paired.has_value(); });
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
  const std::string grid = m.max_length > 0
                               ? cat(" at ", m.max_length, " tokens (")
                               : cat(" at ", m.image_size, " (patch ", m.patch_size, ", ");
  return cat(m.preset, grid, m.embed_dim, " channels, ", m.depth, " blocks, ", m.num_heads,
             " heads)");
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

std::vector<std::string> notes_of(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  std::vector<std::string> notes;
  const bool spread = std::any_of(report.results.begin(), report.results.end(),
                                  [](const VariantResult& r) { return r.runs.size() > 1; });
  std::string metric = metric_title(sweep);
  metric[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(metric[0])));
  notes.push_back(cat(metric,
                      sweep.metric.best_of_all ? " of all evaluations" : " of the last evaluation",
                      sweep.ema ? " of the averaged weights" : "",
                      spread ? ": mean ± sample standard deviation over the seeds" : "", "."));
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
  for (const VariantResult& r : report.results) {
    const std::string& name = sweep.variants[r.variant].name;
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

}  // namespace

std::string metric_text(const SweepConfig& sweep, double value) {
  return format("%.*f", digits_of(sweep), value);
}

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

TableText table_text(const SweepReport& report) {
  using Result = VariantResult;
  using Variant = SweepVariant;
  const SweepConfig& sweep = report.sweep;
  TableText table;
  table.rows.resize(report.results.size());
  const auto add = [&](const std::string& title, auto cell) {
    table.columns.push_back(title);
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const Result& r = report.results[i];
      table.rows[i].push_back(cell(r, sweep.variants[r.variant]));
    }
  };
  const bool has_paper =
      std::ranges::any_of(sweep.variants, [](const Variant& v) { return v.paper.has_value(); });
  add("variant", [](const Result&, const Variant& v) { return v.label; });
  add(metric_title(sweep), [&](const Result& r, const Variant&) { return metric_cell(sweep, r); });
  if (has_paper) {
    add("paper", [&](const Result&, const Variant& v) {
      return v.paper ? metric_text(sweep, *v.paper) : "-";
    });
    add("difference",
        [&](const Result& r, const Variant&) { return signed_text(sweep, r.difference); });
  }
  if (sweep.baseline) {
    const std::string base = "to " + sweep.variants[*sweep.baseline].label;
    add(base, [&](const Result& r, const Variant&) { return signed_text(sweep, r.to_baseline); });
    if (has_pairs(report.results)) {
      add("95 % interval",
          [&](const Result& r, const Variant&) { return interval_cell(sweep, r); });
      add("p", [](const Result& r, const Variant&) { return probability_cell(r); });
    }
    if (has_paper) {
      add(base + " in the paper",
          [&](const Result& r, const Variant&) { return signed_text(sweep, r.paper_to_baseline); });
    }
  }
  for (std::size_t i = 0; i < sweep.milestones.size(); ++i) {
    add(format("epochs to %g", sweep.milestones[i]) + (sweep.milestone_figure.percent ? " %" : ""),
        [&](const Result& r, const Variant&) { return milestone_cell(r, i); });
  }
  for (const std::string& suite : sweep.suites) {
    const RobustnessResult* any = any_result(report, suite);
    const bool in_paper = std::ranges::any_of(
        sweep.variants, [&](const Variant& v) { return v.paper_suites.contains(suite); });
    if (any || in_paper) {
      add(suite_title(suite, any && any->small_images),
          [&](const Result& r, const Variant&) { return robustness_cell(r, suite); });
    }
    if (in_paper) {
      add("paper",
          [&](const Result&, const Variant& v) { return robustness_paper_cell(v, suite); });
    }
  }
  add("parameters", [](const Result& r, const Variant&) { return count_text(r.parameters); });
  add(rate_title(sweep), [](const Result& r, const Variant&) {
    return r.images_per_second ? rate_text(*r.images_per_second) : "-";
  });
  add("seeds", [](const Result& r, const Variant& v) {
    const std::size_t all = v.seeds.size(), n = r.runs.size();
    return n == all ? cat(n) : cat(n, " of ", all);
  });
  return table;
}

std::string markdown_table(const TableText& table) {
  std::vector<std::vector<std::string>> lines(table.rows.size() + 2);
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::vector<std::string> column = {escaped(table.columns[c]), ""};
    for (const auto& row : table.rows) column.push_back(escaped(row[c]));
    std::size_t width = 3;
    for (const std::string& cell : column) width = std::max(width, width_of(cell));
    column[1] = c == 0 ? ":" + std::string(width - 1, '-') : std::string(width - 1, '-') + ":";
    for (std::size_t line = 0; line < column.size(); ++line) {
      const std::string pad(width - width_of(column[line]), ' ');
      lines[line].push_back(c == 0 ? column[line] + pad : pad + column[line]);
    }
  }
  std::string out;
  for (const auto& line : lines) out += "| " + config::join(line, " | ") + " |\n";
  return out;
}

std::string to_markdown(const SweepReport& report) {
  std::string out = cat("# ", report.sweep.title, "\n\n", description_of(report.sweep), "\n\n",
                        markdown_table(table_text(report)), "\n");
  for (const std::string& note : notes_of(report)) out += "- " + note + "\n";
  if (const std::string table = corruption_markdown(report); !table.empty()) out += "\n" + table;
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
