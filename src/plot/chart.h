// Whole charts of one panel: a title, two axes, lines, dots or bars, a legend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plot/panel.h"

namespace dtn::plot {

struct Chart {
  std::string title = {};
  std::string subtitle = {};  // data, number of runs, what bands mean
  Axis x = {}, y = {};
  // The ranges of the axes take in what these hold, bands too. Their order is that of the legend;
  // one alone without a label has none.
  std::vector<Series> series = {};
  bool dots = false;  // instead of lines
  double width = 720, height = 430;
};

std::string draw_chart(Chart chart, std::string_view description);

// Bars side by side in each group: the groups are the categories of the chart's x, the series hold
// one value for each (kMissing: no bar), `x` is not used.
std::string draw_bars(Chart chart, std::string_view description);

}  // namespace dtn::plot
