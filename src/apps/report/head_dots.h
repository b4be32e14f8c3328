// Dot plots of one number per head and layer: a panel for each run, and one for their differences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/report/figure_parts.h"

namespace dtn::drawing {

// Dashed line for comparison.
struct Reference {
  std::string label;
  std::vector<std::vector<std::vector<double>>> values;  // [runs][sites][L]
};

struct HeadDots {
  std::string name, title, unit;  // `unit` labels the axis
  std::string data;               // description of the inputs
  std::string caption;
  // [runs][sites][L][heads]; one site for a quantity of the whole layer.
  std::vector<std::vector<std::vector<std::vector<double>>>> values;
  plot::Axis y = {};  // limits and the like; its range grows with the values
  bool from_zero = true;
  std::optional<Reference> reference = {};
  std::vector<double> pixels = {};  // [runs], pixels per unit for a second axis; NaN: unknown
};

// Returns the values of a key [L][H] or [L][2][H] for all runs.
std::vector<std::vector<std::vector<std::vector<double>>>> head_values(
    const std::vector<AnalyzedRun>& runs, std::string_view key, bool sites);

// Returns nothing if no run has a number. A run without numbers has no panel.
std::optional<plot::Figure> draw_head_dots(const std::vector<AnalyzedRun>& runs, HeadDots what);

}  // namespace dtn::drawing
