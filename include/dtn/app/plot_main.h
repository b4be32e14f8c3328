// The whole of dtn-plot as a function, for programs of one's own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-plot's command line and does what it says. Returns the exit code for main(), as
// train_main() does.
int plot_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
