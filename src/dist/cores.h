// Division of a machine's cores among its ranks.
#pragma once

#include <vector>

#include "dtn/dist/communicator.h"

namespace dtn {

// Returns the number of threads for this rank, at least 1. Each core that this rank may run on
// counts as one, divided by the number of ranks that may run there. Called by all ranks. The first
// rank warns if the ranks are bound to fewer cores than the machine has for them.
int share_of_cores(Communicator& ranks);

// Returns the same number for rank `rank`; masks[r] are the cores that rank r may run on, all of
// one machine.
int share_of_cores(const std::vector<std::vector<int>>& masks, std::size_t rank);

}  // namespace dtn
