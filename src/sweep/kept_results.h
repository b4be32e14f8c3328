// Results of a sweep that are kept for good, in a version control system say: the tables, and of
// each finished run what is needed to count it as finished elsewhere. The folder holds
//
//   <variant>/seed-<n>/config.yaml     without the place of the data on the machine
//   <variant>/seed-<n>/metrics.jsonl   the evaluations alone
//   <variant>/seed-<n>/summary.json
//   <variant>/seed-<n>/<suite>.json    where it was evaluated on a robustness suite
//
// A sweep that takes such a folder over runs what is missing in it, and adds that to it.
#pragma once

#include <filesystem>
#include <vector>

#include "sweep/sweep_plan.h"

namespace dtn {

// Counts runs as finished that are kept in `results` and are not finished in their own folders;
// their folders are those in `results` then. An empty path keeps nothing. Throws ConfigError where the kept config is another.
void adopt_kept_results(std::vector<SweepRun>& runs, const std::filesystem::path& results,
                        const ConfigSchemas& schemas);

// Adds a finished run, or what is new of it.
void keep_result(const SweepRun& run, const std::filesystem::path& results);

}  // namespace dtn
