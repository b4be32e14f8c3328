// Runs that several sweeps share, such as the LayerNorm in every table of a paper. Equal configs,
// apart from names and keys without effect on results, are trained once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/sweep/sweep_plan.h"

namespace dtn {

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
