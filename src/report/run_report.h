// Pages about runs.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "report/run_figures.h"

namespace dtn {

// Writes report.html into the folder of a run: curves, what else it keeps, its config.
void write_run_report(const std::filesystem::path& run);

// One page that compares runs: their last and best figures, and all curves.
std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures);

}  // namespace dtn
