// Archive of a sweep's results, for example in a version control system: the tables, and the files
// of each finished run that mark it as finished on another machine. The folder holds
//
//   <variant>/seed-<n>/config.yaml     without this machine's data folder
//   <variant>/seed-<n>/metrics.jsonl   only the evaluations
//   <variant>/seed-<n>/summary.json
//   <variant>/seed-<n>/<suite>.json    if it was evaluated on a robustness suite
//   <variant>/seed-<n>/features/*.json  if its features were evaluated
//   <variant>/seed-<n>/samples/*        if its samples were judged
//
// A sweep with such a folder runs only the missing runs, and adds them to the folder. All files of
// a run come from one training: if a run was trained again, its new result replaces the old one.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/sweep/sweep.h"
#include "apps/sweep/sweep_plan.h"

namespace dtn {

// Counts a run that is finished in `results`, but not in its own folder, as finished, and sets its
// folder to that in `results`. An empty path does nothing. Throws ConfigError if the config of a
// result in `results` differs from the run's, also if the run is finished in its own folder.
void adopt_kept_results(std::vector<SweepRun>& runs, const std::filesystem::path& results,
                        const ConfigSchemas& schemas);

// Adds a finished run to the archive, or the new files of an archived run. A kept result with other
// figures is replaced, with all its evaluations. Keeps only results on suites that
// robustness_result() returns for `roots`.
void keep_result(const SweepConfig& sweep, const SweepRun& run,
                 const std::filesystem::path& results, const SuiteRoots& roots = {});

// Runs that several sweeps share, such as the LayerNorm in every table of a paper. Equal configs,
// apart from names and keys without effect on results, are trained once. The location of the data
// is part of the config here: on one machine, other folders hold other data.
class SharedRuns {
 public:
  // Replaces each unfinished run by an equal run of an earlier sweep, if that run is finished.
  void adopt(std::vector<SweepRun>& runs) const;
  // Returns the equal run of an earlier sweep, such as "table1_models/ln:0"; empty if none.
  std::string same_as(const SweepRun& run) const;
  // Adds the runs of a sweep. The first of equal runs is kept.
  void add(const std::string& sweep, const std::vector<SweepRun>& runs);

 private:
  struct Known {
    std::string id;
    std::filesystem::path folder;
  };
  std::map<std::string, Known> known_;  // by config
};

}  // namespace dtn
