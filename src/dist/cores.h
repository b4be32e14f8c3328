// How the ranks of one machine share its cores.
#pragma once

#include <vector>

#include "dtn/dist/communicator.h"

namespace dtn {

// Threads for this rank: of each core that the system lets it run on, the part that is left by the
// ranks that may run there, too; at least 1. Called by all ranks. The first one warns when ranks
// are tied to fewer cores than are there for them.
int share_of_cores(Communicator& ranks);

// The same from what every process may run on: masks[r] are the cores of rank r, all of one
// machine.
int share_of_cores(const std::vector<std::vector<int>>& masks, std::size_t rank);

}  // namespace dtn
