// The whole of dtn-train as a function, for programs that bring normalizers, models or tasks of
// their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-train's command line and does what it says, with what `registries` offers. Where the
// first word is `eval`, `predict`, `export`, `sweep`, `info`, `data` or `bench`, the rest is a
// command line of dtn-eval and so on: one program of one's own does what all of ours do. Returns
// the exit code for main(): 0 done, 1 the system refused or a bug, 2 bad usage or config, 3 data, 4
// training diverged, 75 stopped by a signal after a checkpoint.
int train_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
