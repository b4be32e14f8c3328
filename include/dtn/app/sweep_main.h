// dtn-sweep as a function, for programs with user-defined normalizers, models or tasks.
#pragma once

#include <filesystem>

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Parses the command line of dtn-sweep and runs it with `registries`. Its runs are processes of
// `trainer`, a program whose main() is train_main() with the same registries. An empty path stands
// for the dtn-train beside this program. Returns the exit code for main(), as train_main() does.
int sweep_main(int argc, char** argv, const Registries& registries = standard_registries(),
               const std::filesystem::path& trainer = {});

}  // namespace dtn::app
