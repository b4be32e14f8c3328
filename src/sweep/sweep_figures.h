// The pictures of a sweep, as SVG.
#pragma once

#include <string>

#include "sweep/sweep_report.h"

namespace dtn {

// The metric over the epochs: a line for the mean of a variant's seeds, a band from the least to the
// largest. The legend is in the order of results; what has DTN is drawn thicker.
std::string curves_svg(const SweepReport& report);

// The results themselves, a row for each variant: every seed a dot, their mean a line across; beside
// it, on a scale of its own, the paper's figures, where there are some.
std::string values_svg(const SweepReport& report);

}  // namespace dtn
