// Detects the launcher of this process, and joins the other ranks of its job.
#pragma once

#include <memory>

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

}  // namespace dtn
