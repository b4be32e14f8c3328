// What may follow on a command line: programs, options, names of configs, keys and their values. The
// shell asks the program itself, so that what it offers is what there is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace dtn {

// Set by the scripts of completion_script() to the command line up to the cursor.
inline constexpr const char* kCompletionVariable = "DTN_COMPLETE_LINE";

// What the last word of `line` may become, of the options of `app`.
std::vector<std::string> completions(const CLI::App& app, const std::string& line);

// To be read by a shell, "bash", "zsh" or "fish", for our programs.
std::string completion_script(const std::string& shell);

// The manual page of a program, in the language of man(7).
std::string man_page(const CLI::App& app, const std::string& version);

}  // namespace dtn
