// Runs the sweeps of a collection one after the other, each in a subfolder of the output, and shows
// all their tables on one page, <output>/<name>.html.
#pragma once

#include "apps/sweep/sweep.h"
#include "config/sweep_config.h"

namespace dtn {

// `options.only` selects sweeps. A run that two sweeps share is trained once. Throws the same
// errors as run_sweep().
SweepStatus run_collection(const SweepCollection& collection, const SweepOptions& options);

// Prints the plan of run_collection() table by table, with the estimated time of each and the sum.
void describe_collection(const SweepCollection& collection, const SweepOptions& options);

}  // namespace dtn
