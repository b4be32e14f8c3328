// Values that a chart in a page shows under the pointer. A script of the page shows them. Without
// the script, the tooltips of the markers remain.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plot/panel.h"

namespace dtn::plot {

// Returns the values of the lines as JSON, for Figure::values. A line of more than kMaxPoints
// points is thinned, as Panel draws it.
std::string hover_values(std::string_view x_label, std::span<const Series> lines);

// The script and its hash, by which the Content-Security-Policy of a page permits it.
std::string_view hover_script();
std::string_view hover_hash();
// The rules that pages with the script need.
std::string_view hover_style();

}  // namespace dtn::plot
