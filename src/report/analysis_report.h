// The report of an analysis: one HTML file with all figures and numbers in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plot/page.h"

namespace dtn {

// It opens with five lines: the models, what they were shown and their loss, and the three largest
// differences between them in words.
std::string report_html(const nlohmann::ordered_json& analysis,
                        const std::vector<plot::Figure>& figures);

}  // namespace dtn
