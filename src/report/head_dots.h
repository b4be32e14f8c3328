// A number for every head and layer: dots in a panel for each run, and what the runs differ by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/figure_parts.h"

namespace dtn::drawing {

// A dashed line to compare with.
struct Reference {
  std::string label;
  std::vector<std::vector<std::vector<double>>> values;  // [runs][sites][L]
};

struct HeadDots {
  std::string name, title, unit;  // the unit names the axis
  std::string data;               // what was looked at
  std::string caption;
  // [runs][sites][L][heads]; one site for what belongs to a layer.
  std::vector<std::vector<std::vector<std::vector<double>>>> values;
  plot::Axis y = {};  // limits and the like; the values are taken in
  bool from_zero = true;
  std::optional<Reference> reference = {};
  std::vector<double> pixels = {};  // [runs], of a unit, for a second axis; NaN where unknown
};

// The values of a key [L][H] or [L][2][H] of all runs.
std::vector<std::vector<std::vector<std::vector<double>>>> head_values(
    const std::vector<AnalyzedRun>& runs, std::string_view key, bool sites);

// Nothing where no run has a number. Runs without one have no panel.
std::optional<plot::Figure> draw_head_dots(const std::vector<AnalyzedRun>& runs, HeadDots what);

}  // namespace dtn::drawing
