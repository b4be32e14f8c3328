// The programs as functions, for programs with user-defined normalizers, models or tasks.
#pragma once

#include <filesystem>

#include "dtn/tasks/registries.h"

// The programs as functions.
namespace dtn::app {

// Parses the command line of dtn-train and trains with `registries`. If the first word is a command
// of `dtn`, such as `eval` or `sweep`, the rest is that command's line, so a user's program offers
// all commands of `dtn`. Returns the exit code for main(): 0 done, 1 system error or bug, 2 bad
// usage or config, 3 data, 4 training diverged, 75 stopped by a signal after a checkpoint.
int train_main(int argc, char** argv, const Registries& registries = standard_registries());

// dtn-analyze, in the same way as train_main(): parses its command line and returns the exit code.
int analyze_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-bench.
int bench_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-data.
int data_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-eval.
int eval_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-export.
int export_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-info.
int info_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-plot.
int plot_main(int argc, char** argv, const Registries& registries = standard_registries());
// The same for dtn-predict.
int predict_main(int argc, char** argv, const Registries& registries = standard_registries());

// The same for dtn-sweep. Its runs are processes of `trainer`, a program whose main() is
// train_main() with the same registries. An empty path stands for the dtn-train beside this
// program.
int sweep_main(int argc, char** argv, const Registries& registries = standard_registries(),
               const std::filesystem::path& trainer = {});

}  // namespace dtn::app
