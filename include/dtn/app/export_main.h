// The whole of dtn-export as a function, for programs that bring models or data sets of their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-export's command line and does what it says, with what `registries` offers. Returns the
// exit code for main(), as train_main() does.
int export_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
