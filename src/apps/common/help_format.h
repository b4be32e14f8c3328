// Text of --help: options in groups, wrapped to the width of the terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace dtn::app {

// Groups for options that many programs have. HelpFormatter shows them last, in this order.
inline constexpr const char* kMachineGroup = "Machine";
inline constexpr const char* kHelpGroup = "Help";

// Breaks each line of the text at spaces, to at most `width` columns; longer words stay whole. The
// continuation of a line is indented as the line is. Lines of commands ("  dtn-...") stay whole, so
// that they can be copied.
std::string wrap_lines(const std::string& text, std::size_t width);

// An option that needs one other option stands in a group of that option: "With --suite".
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_description(const CLI::App* app) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string arguments(const CLI::App& app) const;
  std::string groups(const CLI::App& app) const;
  // Two columns: names, and the description beside them, or below names that are too long.
  std::string entry(const std::string& names, const std::string& description) const;

  std::size_t width_;  // columns
};

// Lets the program and its subcommands print help of `width` columns.
void format_help(CLI::App& app, std::size_t width);

// Returns an option as --help shows it: "-h, --help", "--severity TEXT", "--device auto|cpu".
std::string shown_name(const CLI::Option& option);
// Returns the limits and the default of an option: " (0.05 to 1e6; default: 30)"; empty if none.
std::string shown_limits(const CLI::Option& option);

}  // namespace dtn::app
