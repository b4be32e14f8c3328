// Figures of an analysis, and its report.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "apps/analyze/analysis.h"
#include "plot/page.h"

namespace dtn {

// Draws every figure for which the analysis has numbers, in the order of a report. `previews` are
// the first inputs as images, possibly none. Ignores values that are absent, null or of another
// shape: no JSON makes this function fail.
std::vector<plot::Figure> draw_figures(const nlohmann::ordered_json& analysis,
                                       std::span<const Preview> previews);

// Returns one HTML file with all figures and numbers in it. It opens with five lines: the models,
// their inputs and loss, and the three largest differences between the models in words.
std::string report_html(const nlohmann::ordered_json& analysis,
                        const std::vector<plot::Figure>& figures);

// Illustrations of P and of relative positions as matrices of numbers: Figs. 4 and 5 of the paper.
std::vector<plot::Figure> illustrations();

}  // namespace dtn
