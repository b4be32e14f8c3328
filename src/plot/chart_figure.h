// A chart as a figure of a page.
#pragma once

#include <string>

#include "plot/chart.h"
#include "plot/page.h"

namespace dtn::plot {

// Draws the chart for a wide screen and for a phone, and adds the values of its series. A chart of
// at most kCellWidth takes a cell of the page's grid. The caller adds a caption and a table.
Figure chart_figure(const std::string& name, Chart chart, const std::string& description);

}  // namespace dtn::plot
