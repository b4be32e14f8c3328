// The whole of dtn-sweep as a function, for programs that bring normalizers, models or tasks of
// their own.
#pragma once

#include <filesystem>

#include "dtn/tasks/registries.h"

namespace dtn::app {

// Reads dtn-sweep's command line and does what it says, with what `registries` offers. Its runs are
// processes of `trainer`, a program whose main() is train_main() with the same registries; of the
// dtn-train beside this program where the path is empty. Returns the exit code for main(), as
// train_main() does.
int sweep_main(int argc, char** argv, const Registries& registries = standard_registries(),
               const std::filesystem::path& trainer = {});

}  // namespace dtn::app
