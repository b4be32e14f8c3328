#include <algorithm>

#include "apps/sweep/sweep_report.h"
#include "config/document.h"
#include "core/format.h"
#include "data/corrupt/corruptions.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr const char* kClean = "clean";
constexpr const char* kMean = "mean";

const RobustnessResult* corruptions_of(const RunResult& run) {
  const auto at = run.suites.find("imagenet-c");
  return at == run.suites.end() || at->second.corruptions.empty() ? nullptr : &at->second;
}

std::optional<double> error_of(const RobustnessResult& result, const std::string& name) {
  const auto at = std::ranges::find(result.corruptions, name, &CorruptionResult::name);
  if (at == result.corruptions.end()) return std::nullopt;
  return at->error;
}

std::optional<double> ce_of(const RobustnessResult& result, const std::string& name) {
  const auto at = std::ranges::find(result.corruptions, name, &CorruptionResult::name);
  return at == result.corruptions.end() ? std::nullopt : at->ce;
}

// Returns the mean of value(name) over the corruptions; nothing if there are no values.
template <class Value>
std::optional<double> mean_over_corruptions(const RobustnessResult& result, Value value) {
  std::vector<double> values;
  for (const CorruptionResult& corruption : result.corruptions) {
    if (corruption.name == kClean) continue;
    if (const std::optional<double> v = value(corruption.name)) values.push_back(*v);
  }
  const auto s = statistics_of(values);
  return s ? std::optional(s->mean) : std::nullopt;
}

// Returns value(result, corruption) for a row, which may be the mean over the corruptions.
template <class Value>
std::optional<double> row_value(const RobustnessResult& result, const std::string& row,
                                Value value) {
  if (row != kMean) return value(result, row);
  return mean_over_corruptions(result,
                               [&](const std::string& name) { return value(result, name); });
}

std::optional<double> row_ratio(const RobustnessResult& result, const RobustnessResult& base,
                                const std::string& row) {
  const auto ratio = [&](const std::string& name) -> std::optional<double> {
    const auto error = error_of(result, name), other = error_of(base, name);
    if (!error || !other || *other == 0) return std::nullopt;
    return 100 * *error / *other;
  };
  return row == kMean ? mean_over_corruptions(result, ratio) : ratio(row);
}

std::optional<double> ratio_to(const VariantResult& base, const VariantResult& result,
                               const std::string& row) {
  std::vector<double> ratios;
  for (const RunResult& run : result.runs) {
    const auto other = std::ranges::find(base.runs, run.seed, &RunResult::seed);
    if (other == base.runs.end()) continue;
    const RobustnessResult *mine = corruptions_of(run), *theirs = corruptions_of(*other);
    if (!mine || !theirs) continue;
    if (const auto ratio = row_ratio(*mine, *theirs, row)) ratios.push_back(*ratio);
  }
  const auto s = statistics_of(ratios);
  return s ? std::optional(s->mean) : std::nullopt;
}

// Statistics over the runs of value(result, corruption).
template <class Value>
std::optional<Statistics> over_runs(const VariantResult& result, const std::string& row,
                                    Value value) {
  std::vector<double> values;
  for (const RunResult& run : result.runs) {
    const RobustnessResult* found = corruptions_of(run);
    if (!found) continue;
    if (const auto v = row_value(*found, row, value)) values.push_back(*v);
  }
  return statistics_of(values);
}

CorruptionRow row_of(const std::vector<VariantResult>& results, std::optional<std::size_t> baseline,
                     const std::string& name) {
  CorruptionRow row{name, {}};
  for (const VariantResult& result : results) {
    CorruptionRow::Cell cell{over_runs(result, name, error_of), over_runs(result, name, ce_of), {}};
    if (baseline && result.variant != *baseline) {
      cell.to_baseline = ratio_to(results[*baseline], result, name);
    }
    row.cells.push_back(cell);
  }
  return row;
}

// A result of a run on a suite.
struct SuiteResult {
  std::string run;  // "variant:seed"
  const RobustnessResult* result;
};

std::vector<SuiteResult> results_on(const SweepReport& report, const std::string& suite) {
  std::vector<SuiteResult> results;
  for (const VariantResult& r : report.results) {
    for (const RunResult& run : r.runs) {
      const auto at = run.suites.find(suite);
      if (at == run.suites.end()) continue;
      results.push_back({cat(report.sweep.variants[r.variant].name, ":", run.seed), &at->second});
    }
  }
  return results;
}

bool has_stand_in_frost(const SweepReport& report) {
  return std::ranges::any_of(results_on(report, "imagenet-c"),
                             [](const SuiteResult& each) { return each.result->stand_in_frost; });
}

// Returns the heading of a row of corruptions.
std::string row_label(const SweepReport& report, const std::string& name) {
  const Corruption* corruption = find_corruption(name);
  const bool stand_in = corruption && is_frost(*corruption) && has_stand_in_frost(report);
  return stand_in ? kGeneratedFrost : name;
}

// Returns a sentence that names the sources, if results on the suite come from different images.
std::vector<std::string> mixed_images_note(const SweepReport& report, const std::string& suite) {
  std::vector<std::vector<SuiteResult>> groups;  // results from the same images
  for (const SuiteResult& each : results_on(report, suite)) {
    const auto group = std::ranges::find_if(groups, [&](const std::vector<SuiteResult>& g) {
      return same_images(*g.front().result, *each.result);
    });
    if (group == groups.end()) {
      groups.push_back({each});
    } else {
      group->push_back(each);
    }
  }
  if (groups.size() < 2) return {};
  const auto describe = [](const std::vector<SuiteResult>& group) {
    const std::string& source = group.front().result->source;
    return cat(source.empty() ? "unknown source" : source, ": ",
               config::join(group, ", ", &SuiteResult::run));
  };
  return {cat("The results on ", suite, " come from different images and are not comparable (",
              config::join(groups, "; ", describe), ").")};
}

// The errors of the evaluated variants, and their ratio to the baseline's.
TableText error_table(const SweepReport& report, std::span<const CorruptionRow> rows) {
  const SweepConfig& sweep = report.sweep;
  TableText table{{"corruption"}, {}};
  for (const CorruptionRow& row : rows) table.rows.push_back({row_label(report, row.name)});
  for (std::size_t v = 0; v < sweep.variants.size(); ++v) {
    if (!rows.back().cells[v].error) continue;
    table.columns.push_back(sweep.variants[v].label);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      table.rows[i].push_back(mean_text(rows[i].cells[v].error, 2));
    }
    if (!sweep.baseline || v == *sweep.baseline) continue;
    table.columns.push_back("relative to " + sweep.variants[*sweep.baseline].label + " (%)");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& ratio = rows[i].cells[v].to_baseline;
      table.rows[i].push_back(ratio ? format("%.1f", *ratio) : "-");
    }
  }
  return table;
}

// The paper's CE of a variant, or its mCE for the index kPaperCorruptions; empty if unknown.
std::string paper_ce(const SweepVariant& variant, std::size_t corruption) {
  const auto at = variant.paper_suites.find("imagenet-c");
  if (at == variant.paper_suites.end()) return "";
  const PaperSuite& paper = at->second;
  if (corruption == kPaperCorruptions) return paper.figure ? format("%.1f", *paper.figure) : "";
  return paper.corruption_errors.empty() ? "" : format("%.4g", paper.corruption_errors[corruption]);
}

// The CE of a variant by corruption, then its mCE.
std::vector<std::string> ce_column(const SweepReport& report, std::size_t variant,
                                   std::span<const std::string> names) {
  std::vector<std::string> column;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto ce = over_runs(report.results[variant], names[i], ce_of);
    column.push_back(beside_paper(mean_text(ce, 1), paper_ce(report.sweep.variants[variant], i)));
  }
  return column;
}

}  // namespace

std::vector<CorruptionRow> corruption_rows(const std::vector<VariantResult>& results,
                                           std::optional<std::size_t> baseline) {
  std::vector<std::string> names;
  for (const VariantResult& result : results) {
    for (const RunResult& run : result.runs) {
      const RobustnessResult* found = corruptions_of(run);
      if (!found) continue;
      for (const CorruptionResult& corruption : found->corruptions) {
        if (std::ranges::find(names, corruption.name) == names.end()) {
          names.push_back(corruption.name);
        }
      }
    }
  }
  std::vector<CorruptionRow> rows;
  for (const std::string& name : names) rows.push_back(row_of(results, baseline, name));
  if (!rows.empty()) rows.push_back(row_of(results, baseline, kMean));
  return rows;
}

TableText ce_table(const SweepReport& report) {
  static_assert(kPaperCorruptions == kBenchmarkCorruptions);
  const SweepConfig& sweep = report.sweep;
  const RobustnessResult* any = any_result(report, "imagenet-c");
  if (any && any->small_images) return {};
  std::vector<std::string> names;
  for (const Corruption& corruption : corruptions().first(kBenchmarkCorruptions)) {
    names.emplace_back(corruption.name);
  }
  names.emplace_back(kMean);
  TableText table{{"corruption"}, {}};
  for (const std::string& name : names) {
    table.rows.push_back({name == kMean ? "mCE" : row_label(report, name)});
  }
  for (std::size_t v = 0; v < sweep.variants.size(); ++v) {
    const std::vector<std::string> column = ce_column(report, v, names);
    const auto is_known = [](const std::string& cell) { return cell != "-"; };
    if (std::none_of(column.begin(), column.end() - 1, is_known)) continue;
    table.columns.push_back(sweep.variants[v].label);
    for (std::size_t i = 0; i < column.size(); ++i) table.rows[i].push_back(column[i]);
  }
  return table.columns.size() > 1 ? table : TableText{};
}

std::vector<std::string> ce_notes(const SweepReport& report) {
  if (!has_stand_in_frost(report)) return {};
  const std::vector<SuiteResult> all = results_on(report, "imagenet-c");
  std::vector<std::string> runs;
  for (const SuiteResult& each : all) {
    if (each.result->stand_in_frost) runs.push_back(each.run);
  }
  return {cat(kGeneratedFrost, runs.size() == all.size() ? "" : " of " + config::join(runs),
              ": the pictures of frost are generated, so this mCE is not comparable with published "
              "ones, such as the paper's.")};
}

std::vector<std::string> suite_notes(const SweepReport& report) {
  std::vector<std::string> notes = ce_notes(report);
  for (const std::string& suite : report.sweep.suites) {
    for (std::string& note : mixed_images_note(report, suite)) notes.push_back(std::move(note));
  }
  return notes;
}

std::string corruption_markdown(const SweepReport& report) {
  std::string text;
  const auto rows = corruption_rows(report.results, report.sweep.baseline);
  if (!rows.empty()) {
    text = "## Top-1 error (%) by corruption, mean over the severities\n\n" +
           markdown_table(error_table(report, rows));
  }
  const TableText ce = ce_table(report);
  if (ce.columns.empty()) return text;
  const std::vector<std::string> notes = ce_notes(report);
  return cat(text, text.empty() ? "" : "\n", "## ", kCeTitle, "\n\n", markdown_table(ce),
             notes.empty() ? "" : "\n", markdown_list(notes));
}

}  // namespace dtn
