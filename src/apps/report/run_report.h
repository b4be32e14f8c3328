// HTML pages about runs.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "apps/report/run_figures.h"

namespace dtn {

// Writes report.html into a run's folder: curves, its other records, and its config.
void write_run_report(const std::filesystem::path& run);

// Returns a page that compares runs: last and best metrics, and all curves.
std::string comparison_page(const std::string& title, std::span<const RunGroup> groups,
                            const std::vector<plot::Figure>& figures);

}  // namespace dtn
