// Tables of a sweep.
#pragma once

#include <string>

#include "apps/sweep/sweep_results.h"

namespace dtn {

struct SweepReport {
  const SweepConfig& sweep;
  std::vector<VariantResult> results;
  std::string output;    // the sweep's folder; messages leave it out
  std::string command;   // command that reproduces the sweep
  bool picture = false;  // curves.svg and values.svg exist
};

std::string to_markdown(const SweepReport& report);
std::string to_csv(const SweepReport& report);
std::string to_json(const SweepReport& report);
// Cells of the table, with one row for each variant.
struct TableText {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
TableText table_text(const SweepReport& report);
// Formats the table as Markdown with aligned columns.
std::string markdown_table(const TableText& table);

// Removes this machine's absolute paths from a text: a path below `folder` becomes relative to it,
// and of any other path the last part remains.
std::string without_paths(const std::string& text, const std::string& folder);

// Returns for instance "top-1 (%)".
std::string figure_title(const FigureSchema& figure);
// Returns for instance "best top-1 (%)".
std::string metric_title(const SweepConfig& sweep);
// Returns the unit of throughput: "images/s", "sequences/s", or "samples/s" if the models have both
// kinds of input.
std::string rate_title(const SweepConfig& sweep);
// Formats a value of the metric with its significant digits.
std::string metric_text(const SweepConfig& sweep, double value);

}  // namespace dtn
