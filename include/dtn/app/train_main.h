// dtn-train as a function, for programs with user-defined normalizers, models or tasks.
#pragma once

#include "dtn/tasks/registries.h"

// The programs as functions.
namespace dtn::app {

// Parses the command line of dtn-train and trains with `registries`. If the first word is a command
// of `dtn`, such as `eval` or `sweep`, the rest is that command's line, so a user's program offers
// all commands of `dtn`. Returns the exit code for main(): 0 done, 1 system error or bug, 2 bad
// usage or config, 3 data, 4 training diverged, 75 stopped by a signal after a checkpoint.
int train_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
