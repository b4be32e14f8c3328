// The whole of dtn-analyze as a function, for programs that bring models or normalizers of their
// own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-analyze's command line and does what it says, with what `registries` offers. Returns
// the exit code for main(), as train_main() does.
int analyze_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
