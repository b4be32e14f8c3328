// Nearest neighbours as rows of pictures, from neighbors.json and neighbors.png of a run.
#pragma once

#include <optional>
#include <string>

#include "apps/report/analysis/analysis_json.h"
#include "plot/gallery.h"

namespace dtn {

// Returns nothing if the files are damaged or do not belong together.
std::optional<plot::Gallery> neighbors_gallery(const drawing::AnalysisJson& json,
                                               const std::string& png);

// Returns a page of the neighbours alone. Throws Error if the files do not belong together.
std::string neighbors_page(const std::string& title, const std::string& json,
                           const std::string& png);

}  // namespace dtn
