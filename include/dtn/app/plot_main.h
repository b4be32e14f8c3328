// dtn-plot as a function, for user programs.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Parses the command line of dtn-plot and runs it. Returns the exit code for main(), as
// train_main() does.
int plot_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
