// The tables of a sweep.
#pragma once

#include <string>

#include "sweep/sweep_results.h"

namespace dtn {

struct SweepReport {
  const SweepConfig& sweep;
  std::vector<VariantResult> results;
  std::string output;    // the sweep's folder, to be left out of messages
  std::string command;   // that reproduces it
  bool picture = false;  // whether there are curves.png and values.png to show
};

std::string to_markdown(const SweepReport& report);
std::string to_csv(const SweepReport& report);
std::string to_json(const SweepReport& report);
// What the table holds, cell by cell: one row for each variant.
struct TableText {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
TableText table_text(const SweepReport& report);
// As Markdown, its columns in line.
std::string markdown_table(const TableText& table);

// A text without the absolute paths of this machine: those below `folder` become relative to it,
// of others the last part stays.
std::string without_paths(const std::string& text, const std::string& folder);

// "top-1 (%)"
std::string figure_title(const FigureSchema& figure);
// "best top-1 (%)"
std::string metric_title(const SweepConfig& sweep);
// What the models see: "images/s", "sequences/s", or "samples/s" where some see the one, some the
// other.
std::string rate_title(const SweepConfig& sweep);
// A value of the metric, with the digits that make sense.
std::string metric_text(const SweepConfig& sweep, double value);

}  // namespace dtn
