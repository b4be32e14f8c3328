#include "apps/common/commands.h"

#include <string>

#include "apps/common/program.h"
#include "dtn/app/analyze_main.h"
#include "dtn/app/bench_main.h"
#include "dtn/app/data_main.h"
#include "dtn/app/eval_main.h"
#include "dtn/app/export_main.h"
#include "dtn/app/info_main.h"
#include "dtn/app/plot_main.h"
#include "dtn/app/predict_main.h"
#include "dtn/app/sweep_main.h"
#include "dtn/app/train_main.h"

namespace dtn::app {
namespace {

int sweep_with_our_trainer(int argc, char** argv, const Registries& registries) {
  return sweep_main(argc, argv, registries);
}

constexpr Command kCommands[] = {
    {"train", "dtn-train", "train a model as a config says", train_main},
    {"eval", "dtn-eval", "evaluate a checkpoint: top-1, top-5, loss, robustness suites", eval_main},
    {"predict", "dtn-predict", "name what a model sees in pictures", predict_main},
    {"export", "dtn-export", "write a model as an ONNX file", export_main},
    {"analyze", "dtn-analyze", "look inside: norms, heads and layers in numbers and figures",
     analyze_main},
    {"plot", "dtn-plot", "draw the curves of runs beside each other", plot_main},
    {"sweep", "dtn-sweep", "train variants from several seeds, and tabulate them",
     sweep_with_our_trainer},
    {"info", "dtn-info", "describe a model; list configs' keys, models, norms, presets", info_main},
    {"data", "dtn-data", "pack, verify, describe and corrupt data sets", data_main},
    {"bench", "dtn-bench", "measure speed on this machine", bench_main},
};

// Handles help, version, manual page and completion of `dtn`, and the error of an unknown command.
int describe_commands(int argc, char** argv) {
  CLI::App app{
      "Trains vision transformers with the normalization layer of your choice.\n"
      "`dtn COMMAND --help` lists the options of a command; `dtn-COMMAND` is the same program.",
      "dtn"};
  app.require_subcommand(1);
  for (const Command& command : kCommands) app.add_subcommand(command.name, command.doc);
  return run_program(app, argc, argv, Processes::kOne, [] { return static_cast<int>(kExitUsage); });
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int dtn_main(int argc, char** argv, const Registries& registries) {
  std::string_view called = argc > 0 ? argv[0] : "";
  called = called.substr(called.rfind('/') + 1);
  for (const Command& command : kCommands) {
    if (called == command.program) return command.run(argc, argv, registries);
  }
  if (argc > 1) {
    if (const Command* command = find_command(argv[1])) {
      return command->run(argc - 1, argv + 1, registries);
    }
  }
  return describe_commands(argc, argv);
}

}  // namespace dtn::app
