// Runs that several sweeps have in common, such as the LayerNorm of a paper's every table: equal
// configs, apart from names and what changes no number, are trained once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sweep/sweep_plan.h"

namespace dtn {

class SharedRuns {
 public:
  // Lets runs that are not finished, but are in a sweep seen before, be those.
  void adopt(std::vector<SweepRun>& runs) const;
  // The run of a sweep seen before that is the same: "table1_models/ln:0"; empty: none is.
  std::string same_as(const SweepRun& run) const;
  // Adds the runs of a sweep; of equal ones the first stays.
  void add(const std::string& sweep, const std::vector<SweepRun>& runs);

 private:
  struct Known {
    std::string id;
    std::filesystem::path folder;
  };
  std::map<std::string, Known> known_;  // by config
};

}  // namespace dtn
