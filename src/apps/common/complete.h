// Completion of command lines: programs, options, config names, keys and their values. The shell
// asks the program itself, so the candidates always match what the program accepts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dtn {

// Set by the scripts of completion_script() to the command line up to the cursor.
inline constexpr const char* kCompletionVariable = "DTN_COMPLETE_LINE";

// Returns the possible completions of the last word of `line`, from the options of `app`.
std::vector<std::string> completions(const CLI::App& app, const std::string& line);

// Returns the completion script of our programs for a shell: "bash", "zsh" or "fish".
std::string completion_script(const std::string& shell);

}  // namespace dtn
