// The whole of dtn-bench as a function, for programs that bring normalizers or models of their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-bench's command line and does what it says, with what `registries` offers. Returns the
// exit code for main(), as train_main() does.
int bench_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
