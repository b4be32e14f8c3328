#include <algorithm>

#include "apps/sweep/sweep_report.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr const char* kClean = "clean";
constexpr const char* kMean = "mean";

const RobustnessResult* corruptions_of(const RunResult& run) {
  const auto at = run.suites.find("imagenet-c");
  return at == run.suites.end() || at->second.errors.empty() ? nullptr : &at->second;
}

std::optional<double> error_of(const RobustnessResult& result, const std::string& name) {
  const auto at = std::ranges::find(result.errors, name, &std::pair<std::string, double>::first);
  if (at == result.errors.end()) return std::nullopt;
  return at->second;
}

// Returns the mean of value(name) over the corruptions; nothing if there are no values.
template <class Value>
std::optional<double> mean_over_corruptions(const RobustnessResult& result, Value value) {
  std::vector<double> values;
  for (const auto& [name, error] : result.errors) {
    if (name == kClean) continue;
    if (const std::optional<double> v = value(name)) values.push_back(*v);
  }
  const auto s = statistics_of(values);
  return s ? std::optional(s->mean) : std::nullopt;
}

std::optional<double> row_error(const RobustnessResult& result, const std::string& row) {
  if (row != kMean) return error_of(result, row);
  return mean_over_corruptions(result,
                               [&](const std::string& name) { return error_of(result, name); });
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

CorruptionRow row_of(const std::vector<VariantResult>& results, std::optional<std::size_t> baseline,
                     const std::string& name) {
  CorruptionRow row{name, {}};
  for (const VariantResult& result : results) {
    std::vector<double> errors;
    for (const RunResult& run : result.runs) {
      const RobustnessResult* found = corruptions_of(run);
      if (!found) continue;
      if (const auto error = row_error(*found, name)) errors.push_back(*error);
    }
    CorruptionRow::Cell cell{statistics_of(errors), std::nullopt};
    if (baseline && result.variant != *baseline) {
      cell.to_baseline = ratio_to(results[*baseline], result, name);
    }
    row.cells.push_back(cell);
  }
  return row;
}

std::string error_text(const std::optional<Statistics>& s) {
  if (!s) return "-";
  return s->std ? format("%.2f ± %.2f", s->mean, *s->std) : format("%.2f", s->mean);
}

}  // namespace

std::vector<CorruptionRow> corruption_rows(const std::vector<VariantResult>& results,
                                           std::optional<std::size_t> baseline) {
  std::vector<std::string> names;
  for (const VariantResult& result : results) {
    for (const RunResult& run : result.runs) {
      const RobustnessResult* found = corruptions_of(run);
      if (!found) continue;
      for (const auto& [name, error] : found->errors) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  std::vector<CorruptionRow> rows;
  for (const std::string& name : names) rows.push_back(row_of(results, baseline, name));
  if (!rows.empty()) rows.push_back(row_of(results, baseline, kMean));
  return rows;
}

std::string corruption_markdown(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  const std::vector<CorruptionRow> rows = corruption_rows(report.results, sweep.baseline);
  if (rows.empty()) return "";
  TableText table{{"corruption"}, {}};
  for (const CorruptionRow& row : rows) table.rows.push_back({row.name});
  for (std::size_t v = 0; v < sweep.variants.size(); ++v) {
    if (!rows.back().cells[v].error) continue;
    table.columns.push_back(sweep.variants[v].label);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      table.rows[i].push_back(error_text(rows[i].cells[v].error));
    }
    if (!sweep.baseline || v == *sweep.baseline) continue;
    table.columns.push_back("relative to " + sweep.variants[*sweep.baseline].label + " (%)");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& ratio = rows[i].cells[v].to_baseline;
      table.rows[i].push_back(ratio ? format("%.1f", *ratio) : "-");
    }
  }
  return "## Top-1 error (%) by corruption, mean over the severities\n\n" + markdown_table(table);
}

}  // namespace dtn
