// Archive of a sweep's results, for example in a version control system: the tables, and the files
// of each finished run that mark it as finished on another machine. The folder holds
//
//   <variant>/seed-<n>/config.yaml     without this machine's data folder
//   <variant>/seed-<n>/metrics.jsonl   only the evaluations
//   <variant>/seed-<n>/summary.json
//   <variant>/seed-<n>/<suite>.json    if it was evaluated on a robustness suite
//
// A sweep with such a folder runs only the missing runs, and adds them to the folder.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/sweep/sweep_plan.h"

namespace dtn {

// Counts a run that is finished in `results`, but not in its own folder, as finished, and sets its
// folder to that in `results`. An empty path does nothing. Throws ConfigError if configs differ.
void adopt_kept_results(std::vector<SweepRun>& runs, const std::filesystem::path& results,
                        const ConfigSchemas& schemas);

// Adds a finished run to the archive, or the new files of an archived run.
void keep_result(const SweepRun& run, const std::filesystem::path& results);

}  // namespace dtn
