// dtn-get as a function, for programs with user-defined models or data sets.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Parses the command line of dtn-get and runs it with `registries`. Returns the exit code for
// main(), as train_main() does.
int get_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
