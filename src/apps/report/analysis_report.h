// Report of an analysis: one HTML file with all figures and numbers in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plot/page.h"

namespace dtn {

// The report opens with five lines: the models, their inputs and loss, and the three largest
// differences between the models in words.
std::string report_html(const nlohmann::ordered_json& analysis,
                        const std::vector<plot::Figure>& figures);

}  // namespace dtn
