// The commands of the program `dtn`. A link makes each command a program: dtn-train is a link to
// dtn that runs `dtn train`.
#pragma once

#include <span>
#include <string_view>

#include "dtn/tasks/registries.h"

namespace dtn::app {

struct Command {
  const char* name;     // the first word: "train"
  const char* program;  // the link: "dtn-train"
  const char* doc;
  int (*run)(int argc, char** argv, const Registries& registries);
};

// All commands, in the order of the help.
std::span<const Command> commands();

// Returns null if no command has this name.
const Command* find_command(std::string_view name);

// The main function of `dtn`. Runs the command given by the name under which the program was
// started (a link such as dtn-train), or else by the first argument. Returns the exit code.
int dtn_main(int argc, char** argv, const Registries& registries = standard_registries());

}  // namespace dtn::app
