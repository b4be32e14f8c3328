// The commands of the program `dtn`. A link makes each command a program: dtn-train is a link to
// dtn that runs `dtn train`.
#pragma once

#include <span>
#include <string_view>

#include "dtn/tasks/registries.h"

namespace dtn::app {

// A command line that runs as it stands, and a sentence on what it does. tests/e2e/examples.sh runs
// all of them.
struct Example {
  const char* line;
  const char* doc;
};

struct Command {
  const char* name;     // the first word: "train"
  const char* program;  // the link: "dtn-train"
  const char* doc;
  int (*run)(int argc, char** argv, const Registries& registries);
  std::span<const Example> examples;
  const char* related;  // programs, separated by spaces
  const char* pages;    // of docs/, separated by spaces
};

// All commands, in the order of the help.
std::span<const Command> commands();

// Returns null if no command has this name.
const Command* find_command(std::string_view name);

// Returns the command of a program such as "dtn-train"; for other names, the entry of `dtn` itself.
const Command& command_of_program(std::string_view program);

// The main function of `dtn`. Runs the command given by the name under which the program was
// started (a link such as dtn-train), or else by the first argument. Returns the exit code.
int dtn_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
