// The whole of dtn-train as a function, for programs that bring normalizers, models or tasks of
// their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-train's command line and trains with what `registries` offers. If the first word is a
// command of `dtn`, such as `eval` or `sweep`, the rest is that command's line: a program of one's
// own has all commands of ours. Returns the exit code for main(): 0 done, 1 the system refused or a
// bug, 2 bad usage or config, 3 data, 4 training diverged, 75 stopped by a signal after a
// checkpoint.
int train_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
