// Line plots of one number per layer: a panel for each quantity, with a line for each run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/report/figure_parts.h"

namespace dtn::drawing {

struct LinePanel {
  std::string title;
  std::vector<std::vector<double>> values;  // [runs][L], or [L + 1] of the residual stream
  bool from_zero_layer = false;             // the first value belongs to block 0's input
};

struct LayerLines {
  std::string name, title, unit, data, caption;
  std::vector<LinePanel> panels;
  plot::Axis y = {};
  bool from_zero = true;
  bool shared = true;  // one scale for all panels; otherwise one each
};

// Returns nothing if no run has a number. Panels without numbers are left out.
std::optional<plot::Figure> draw_layer_lines(const std::vector<AnalyzedRun>& runs, LayerLines what);

}  // namespace dtn::drawing
