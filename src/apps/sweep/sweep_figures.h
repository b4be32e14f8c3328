// Figures of a sweep, as SVG.
#pragma once

#include <string>

#include "apps/sweep/sweep_report.h"

namespace dtn {

// Draws the metric over the epochs: for each variant a line for the mean over the seeds, and a band
// from the minimum to the maximum. The legend is sorted by result; DTN variants have thicker lines.
std::string curves_svg(const SweepReport& report);

// Draws the results, one row per variant: a dot for each seed and a line for the mean. The paper's
// figures, if any, are beside them with a separate scale.
std::string values_svg(const SweepReport& report);

}  // namespace dtn
