// The table of a sweep, with a row for each variant.
#include <algorithm>
#include <array>

#include "apps/sweep/sweep_report.h"
#include "config/document.h"
#include "core/format.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

int digits_of(const SweepConfig& sweep) { return sweep.metric.figure.decimals_in_tables(); }

std::string signed_text(const SweepConfig& sweep, std::optional<double> value) {
  return value ? format("%+.*f", digits_of(sweep), *value) : "-";
}

std::string rate_text(double rate) { return format(rate < 100 ? "%.1f" : "%.0f", rate); }

// Escapes bars, which would end the cell.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// Width on a terminal: one column per UTF-8 character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// A count in thousands, millions, ...
struct ScaledCount {
  double value = 0;
  const char* unit = "";
};

ScaledCount scaled(double count) {
  constexpr double kNextUnit = 999.95;  // with 4 digits, it reads 1000
  constexpr std::array units = {"", " k", " M", " G", " T"};
  std::size_t i = 0;
  for (; count >= kNextUnit && i + 1 < units.size(); ++i) count /= 1000;
  return {count, units[i]};
}

std::string metric_cell(const SweepConfig& sweep, const VariantResult& r) {
  if (!r.metric) return r.failures.empty() ? "-" : "failed";
  const std::string text = mean_text(r.metric, digits_of(sweep));
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
  return at == r.suites.end() ? "-" : mean_text_of(at->second, 1, r.runs.size());
}

std::string robustness_paper_cell(const SweepVariant& variant, const std::string& suite) {
  const auto at = variant.paper_suites.find(suite);
  const bool known = at != variant.paper_suites.end() && at->second.figure;
  return known ? format("%.1f", *at->second.figure) : "-";
}

// The i-th of the paper's other figures.
std::string figure_cell(const SweepConfig& sweep, const VariantResult& r, std::size_t i) {
  const FigureSchema& figure = sweep.paper_figures[i];
  const std::map<std::string, double>& paper = sweep.variants[r.variant].paper_figures;
  const auto at = paper.find(figure.name);
  const int digits = figure.decimals_in_tables();
  return beside_paper(mean_text(r.figures[i], digits),
                      at == paper.end() ? "" : format("%.*f", digits, at->second));
}

// A value whose unit is not known, with 4 digits.
std::string four_digits(double value) {
  std::string text = format("%#.4g", value);
  if (text.ends_with('.')) text.pop_back();  // "1234."
  return text;
}

// The i-th of the sweep's columns. The deviation has as many decimals as the mean.
std::string column_cell(const VariantResult& r, std::size_t i) {
  const std::optional<Statistics>& s = r.columns[i];
  if (!s) return "-";
  std::string mean = four_digits(s->mean);
  if (!s->std) return mean;
  if (mean.find('e') != std::string::npos) return cat(mean, " ± ", four_digits(*s->std));
  const std::size_t dot = mean.find('.');
  const std::size_t decimals = dot == std::string::npos ? 0 : mean.size() - dot - 1;
  return mean_text(s, static_cast<int>(decimals));
}

// The paper prints fewer digits than we count.
std::string size_cell(double ours, const std::optional<std::int64_t>& paper) {
  if (!paper) return count_text(ours);
  const ScaledCount printed = scaled(static_cast<double>(*paper));
  return beside_paper(count_text(ours), cat(format("%.4g", printed.value), printed.unit));
}

// Builds a table column by column.
class Columns {
 public:
  explicit Columns(const SweepReport& report) : report_(report) {
    table_.rows.resize(report.results.size());
  }

  // cell(result, variant) returns the text of a row.
  template <class Cell>
  void add(const std::string& title, Cell cell) {
    table_.columns.push_back(title);
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      const VariantResult& r = report_.results[i];
      table_.rows[i].push_back(cell(r, report_.sweep.variants[r.variant]));
    }
  }

  TableText take() { return std::move(table_); }

 private:
  const SweepReport& report_;
  TableText table_;
};

using Result = VariantResult;
using Variant = SweepVariant;

void add_metric(const SweepConfig& sweep, bool in_paper, Columns& table) {
  table.add(metric_title(sweep),
            [&](const Result& r, const Variant&) { return metric_cell(sweep, r); });
  if (!in_paper) return;
  table.add("paper", [&](const Result&, const Variant& v) {
    return v.paper ? metric_text(sweep, *v.paper) : "-";
  });
  table.add("difference",
            [&](const Result& r, const Variant&) { return signed_text(sweep, r.difference); });
}

void add_baseline(const SweepReport& report, bool in_paper, Columns& table) {
  const SweepConfig& sweep = report.sweep;
  const std::string base = "to " + sweep.variants[*sweep.baseline].label;
  table.add(base,
            [&](const Result& r, const Variant&) { return signed_text(sweep, r.to_baseline); });
  if (has_pairs(report.results)) {
    table.add("95 % interval",
              [&](const Result& r, const Variant&) { return interval_cell(sweep, r); });
    table.add("p", [](const Result& r, const Variant&) { return probability_cell(r); });
  }
  if (!in_paper) return;
  table.add(base + " in the paper", [&](const Result& r, const Variant&) {
    return signed_text(sweep, r.paper_to_baseline);
  });
}

void add_milestones(const SweepConfig& sweep, Columns& table) {
  for (std::size_t i = 0; i < sweep.milestones.size(); ++i) {
    const char* unit = sweep.milestone_figure.percent ? " %" : "";
    table.add(cat("epochs to ", format("%g", sweep.milestones[i]), unit),
              [i](const Result& r, const Variant&) { return milestone_cell(r, i); });
  }
}

void add_suite(const SweepReport& report, const std::string& suite, Columns& table) {
  const bool in_paper = std::ranges::any_of(
      report.sweep.variants, [&](const Variant& v) { return v.paper_suites.contains(suite); });
  const RobustnessResult* any = any_result(report, suite);
  if (any || in_paper) {
    table.add(suite_title(suite, any && any->small_images),
              [&](const Result& r, const Variant&) { return robustness_cell(r, suite); });
  }
  if (in_paper) {
    table.add("paper",
              [&](const Result&, const Variant& v) { return robustness_paper_cell(v, suite); });
  }
}

// The size of the models. The paper's is in parentheses.
void add_sizes(const SweepReport& report, Columns& table) {
  const auto any = [&](auto has) { return std::ranges::any_of(report.sweep.variants, has); };
  const bool parameters = any([](const Variant& v) { return v.paper_parameters.has_value(); });
  table.add(parameters ? "parameters (paper)" : "parameters",
            [](const Result& r, const Variant& v) {
              return size_cell(static_cast<double>(r.cost.parameters), v.paper_parameters);
            });
  if (!any([](const Variant& v) { return v.paper_multiply_adds.has_value(); })) return;
  table.add("multiply-adds (paper)", [](const Result& r, const Variant& v) {
    return size_cell(r.cost.paper_multiply_adds, v.paper_multiply_adds);
  });
  const auto computes_less = [](const Result& r) {
    return r.cost.computed_multiply_adds != r.cost.paper_multiply_adds;
  };
  if (!std::ranges::any_of(report.results, computes_less)) return;
  table.add("computed", [](const Result& r, const Variant&) {
    return count_text(r.cost.computed_multiply_adds);
  });
}

}  // namespace

std::string metric_text(const SweepConfig& sweep, double value) {
  return format("%.*f", digits_of(sweep), value);
}

std::string mean_text(const std::optional<Statistics>& s, int digits) {
  if (!s) return "-";
  const std::string mean = format("%.*f", digits, s->mean);
  return s->std ? cat(mean, " ± ", format("%.*f", digits, *s->std)) : mean;
}

std::string mean_text_of(const std::optional<Statistics>& s, int digits, std::size_t runs) {
  std::string text = mean_text(s, digits);
  return !s || s->n == runs ? text : cat(text, " (", s->n, " of ", runs, ")");
}

std::string count_text(double count) {
  const ScaledCount s = scaled(count);
  return *s.unit ? cat(format("%#.4g", s.value), s.unit) : format("%.0f", s.value);
}

std::string beside_paper(const std::string& ours, const std::string& paper) {
  return paper.empty() ? ours : cat(ours, " (", paper, ")");
}

bool has_pairs(std::span<const VariantResult> results) {
  return std::ranges::any_of(results, [](const Result& r) { return r.paired.has_value(); });
}

const RobustnessResult* any_result(const SweepReport& report, const std::string& suite) {
  for (const VariantResult& r : report.results) {
    for (const RunResult& run : r.runs) {
      const auto at = run.suites.find(suite);
      if (at != run.suites.end()) return &at->second;
    }
  }
  return nullptr;
}

TableText table_text(const SweepReport& report) {
  const SweepConfig& sweep = report.sweep;
  const bool in_paper =
      std::ranges::any_of(sweep.variants, [](const Variant& v) { return v.paper.has_value(); });
  Columns table(report);
  table.add("variant", [](const Result&, const Variant& v) { return v.label; });
  add_metric(sweep, in_paper, table);
  if (sweep.baseline) add_baseline(report, in_paper, table);
  add_milestones(sweep, table);
  for (std::size_t i = 0; i < sweep.paper_figures.size(); ++i) {
    const FigureSchema& figure = sweep.paper_figures[i];
    table.add(cat(figure.title, figure.percent ? " in % (paper)" : " (paper)"),
              [&](const Result& r, const Variant&) { return figure_cell(sweep, r, i); });
  }
  for (std::size_t i = 0; i < sweep.columns.size(); ++i) {
    table.add(sweep.columns[i].label,
              [i](const Result& r, const Variant&) { return column_cell(r, i); });
  }
  for (const std::string& suite : sweep.suites) add_suite(report, suite, table);
  add_sizes(report, table);
  table.add(rate_title(sweep), [](const Result& r, const Variant&) {
    return r.images_per_second ? rate_text(*r.images_per_second) : "-";
  });
  table.add("seeds", [](const Result& r, const Variant& v) {
    const std::size_t all = v.seeds.size(), n = r.runs.size();
    return n == all ? cat(n) : cat(n, " of ", all);
  });
  return table.take();
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

std::string markdown_list(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += "- " + note + "\n";
  return out;
}

}  // namespace dtn
