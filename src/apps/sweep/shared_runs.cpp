#include "apps/sweep/shared_runs.h"

#include "dtn/config/load.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

std::string key_of(const SweepRun& run) { return to_yaml(comparable(run.config)); }

}  // namespace

void SharedRuns::adopt(std::vector<SweepRun>& runs) const {
  for (SweepRun& run : runs) {
    if (run.state == RunState::kFinished) continue;
    const auto known = known_.find(key_of(run));
    if (known == known_.end()) continue;
    SweepRun other = run;
    other.folder = known->second.folder;
    update_state(other);
    if (other.state == RunState::kFinished) run = other;
  }
}

std::string SharedRuns::same_as(const SweepRun& run) const {
  const auto known = known_.find(key_of(run));
  return known == known_.end() ? "" : known->second.id;
}

void SharedRuns::add(const std::string& sweep, const std::vector<SweepRun>& runs) {
  for (const SweepRun& run : runs) {
    known_.try_emplace(key_of(run), Known{cat(sweep, "/", run.id), run.folder});
  }
}

}  // namespace dtn
