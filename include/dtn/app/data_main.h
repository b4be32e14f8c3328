// The whole of dtn-data as a function, for programs that bring data sets of their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-data's command line and does what it says, with what `registries` offers. Returns the
// exit code for main(), as train_main() does.
int data_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
