// The whole of dtn-eval as a function, for programs that bring normalizers, models or tasks of
// their own.
#pragma once

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-eval's command line and does what it says, with what `registries` offers. Returns the
// exit code for main(), as train_main() does.
int eval_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
