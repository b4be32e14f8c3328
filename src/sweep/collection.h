// Runs the sweeps of a collection one after the other, each in its folder below the output, and
// shows all their tables on one page, <output>/<name>.html.
#pragma once

#include "config/sweep_collection.h"
#include "sweep/sweep.h"

namespace dtn {

// `options.only` names sweeps. Runs that two sweeps have in common are trained once. Throws as
// run_sweep() does.
SweepStatus run_collection(const SweepCollection& collection, const SweepOptions& options);

// Prints what run_collection() would do, table by table, with how long each takes and all of them.
void describe_collection(const SweepCollection& collection, const SweepOptions& options);

}  // namespace dtn
