// Complete charts of one panel: a title, two axes, lines or bars, and a legend.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plot/panel.h"

namespace dtn::plot {

inline constexpr std::size_t kMaxDistinctSeries = 24;
// Width of a chart in a cell of a page's grid, in CSS pixels.
inline constexpr double kCellWidth = 540;
// A chart that is wider by 1 is higher by this.
inline constexpr double kHeightPerWidth = 0.3;

// A value of y to compare with, drawn as a dotted line.
struct RuledValue {
  double y = 0;
  std::string label = {};  // above the line, or below it if there is no room
};

struct Chart {
  std::string title = {};
  std::string subtitle = {};  // data, number of runs, meaning of bands
  Axis x = {}, y = {};
  std::vector<RuledValue> rules = {};  // y is extended to them
  // The ranges of the axes are extended to these values and bands. The legend has the same order,
  // without the series that have no label. A long title or legend makes the picture taller. Below
  // more than kMaxDistinctSeries series, a line says that they are hard to tell apart.
  std::vector<Series> series = {};
  // Values before smoothing, drawn pale behind the series.
  std::vector<Series> raw = {};
  double width = kCellWidth, height = 340;
};

std::string draw_chart(Chart chart, std::string_view description);

// Draws bars side by side in each group. The groups are the categories of the chart's x. Each
// series has one value per group (kMissing: no bar), and its `x` is not used.
std::string draw_bars(Chart chart, std::string_view description);

}  // namespace dtn::plot
