// The paper's results in a sweep file: `paper:` and `paper_suites:` of a variant, and `notes:`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/document.h"
#include "config/sweeps/sweep_config.h"

namespace dtn::config {

// A value and its position.
template <class T>
struct Written {
  T value{};
  Where where;
};

// Value of `paper:`. The names of the figures are unchecked: they depend on the task.
struct PaperResult {
  // A single number: the sweep's metric.
  std::optional<Written<double>> metric;
  // A map: figures of the task by name, and the size of the model.
  std::vector<std::pair<std::string, Written<double>>> figures;
  std::optional<std::int64_t> parameters, multiply_adds;
};

// Reads the value of `paper:`, a number or a map.
PaperResult read_paper(const Node& node);
// Reads the value of `paper_suites:`, a map; null: none.
std::map<std::string, PaperSuite> read_paper_suites(const Node& node);
// Sets the paper's results of a variant whose task has these figures. Throws an error for a figure
// that the task does not have, or a value out of range.
void set_paper(const PaperResult& paper, const SweepMetric& metric,
               std::span<const FigureSchema> figures, SweepVariant& variant);
// Throws an error if a figure in percent is not between 0 and 100. `zero`: 0 is allowed.
void check_figure(const Written<double>& written, const FigureSchema& figure, bool zero,
                  const std::string& path);

// Reads the value of `notes:`, a text or a list of texts; null: none.
std::vector<std::string> read_notes(const Node& node);

}  // namespace dtn::config
