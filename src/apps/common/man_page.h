// Manual pages and the examples of --help, from the command line of a program and its entry in the
// table of commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/common/commands.h"

namespace dtn::app {

// Returns the examples as they stand at the end of --help; empty if the command has none.
std::string examples_help(const Command& command);

// Returns the manual page of a program, in the format of man(7). `exit_codes` explains them.
std::string man_page(const CLI::App& app, const Command& command, const std::string& version,
                     const std::string& exit_codes);

}  // namespace dtn::app
