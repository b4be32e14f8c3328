// The figures of an analysis.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "analyze/analysis.h"
#include "plot/page.h"

namespace dtn {

// All that the analysis has numbers for, in the order of a report; `previews` are the first inputs
// as people see them, perhaps none. Whatever is absent, null or of another shape is left out: no
// JSON makes this fail.
std::vector<plot::Figure> draw_figures(const nlohmann::ordered_json& analysis,
                                       std::span<const Preview> previews);

}  // namespace dtn
