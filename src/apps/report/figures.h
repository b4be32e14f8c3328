// Figures of an analysis.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "apps/analyze/analysis.h"
#include "plot/page.h"

namespace dtn {

// Draws every figure for which the analysis has numbers, in the order of a report. `previews` are
// the first inputs as images, possibly none. Ignores values that are absent, null or of another
// shape: no JSON makes this function fail.
std::vector<plot::Figure> draw_figures(const nlohmann::ordered_json& analysis,
                                       std::span<const Preview> previews);

}  // namespace dtn
