// Detects the launcher of this process, joins the other ranks of its job, and shares the cores of a
// machine among them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dtn/dist/communicator.h"

namespace dtn {

// Size and rank that mpirun or srun set for this process, known before MPI starts. 1 and 0 without
// a launcher, or with DTN_ALONE in the environment, which makes each process a separate run.
struct Launch {
  int size = 1, rank = 0;
};
Launch launch();

// Joins the other ranks. Without a launcher, this process is the only rank. Throws ConfigError if
// there are several ranks, but the program was built without MPI, its library is not on this
// machine, or the ranks cannot find each other.
std::unique_ptr<Communicator> join_job(const CommunicatorOptions& options = {});

// Returns the number of threads for this rank, at least 1. Each core that this rank may run on
// counts as one, divided by the number of ranks that may run there. Called by all ranks. The first
// rank warns if the ranks are bound to fewer cores than the machine has for them.
int share_of_cores(Communicator& ranks);

// Returns the same number for rank `rank`; masks[r] are the cores that rank r may run on, all of
// one machine.
int share_of_cores(const std::vector<std::vector<int>>& masks, std::size_t rank);

}  // namespace dtn
