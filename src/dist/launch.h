// How a process finds out that it is one of several.
#pragma once

#include <memory>

#include "dtn/dist/communicator.h"

namespace dtn {

// What mpirun or srun told this process, before MPI has been started; 1 and 0 without them, or with
// DTN_ALONE in the environment, which makes each process a run of its own.
struct Launch {
  int size = 1, rank = 0;
};
Launch launch();

// Joins the other ranks. Without a launcher, the only rank. Throws ConfigError where there are
// several, but the program was built without MPI, its library is not on this machine, or they
// cannot find each other.
std::unique_ptr<Communicator> join_job(const CommunicatorOptions& options = {});

}  // namespace dtn
