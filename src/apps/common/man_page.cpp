#include "apps/common/man_page.h"

#include <sstream>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

// Escapes text for troff, where a backslash, a hyphen, and a dot or quote at the start of a line
// have special meanings.
std::string troff(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool at_start = out.empty() || out.back() == '\n';
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// The names of an option: "-h, --help", or the name of its positional argument.
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  return names.empty() ? option.get_name(true) : names.substr(0, names.size() - 2);
}

// Positional arguments, as a synopsis shows them: "[config]", "pictures...".
std::string arguments_of(const CLI::App& app) {
  std::string all;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    std::string name = "\\fI" + troff(option->get_name(true)) + "\\fR";
    if (option->get_items_expected_max() > 1) name += "...";
    all += option->get_required() ? " " + name : " [" + name + "]";
  }
  return all;
}

std::string options_of(const CLI::App& app) {
  std::string page;
  for (const CLI::Option* option : app.get_options()) {
    page += ".TP\n\\fB" + troff(names_of(*option)) + "\\fR";
    if (option->get_items_expected_max() > 0)
      page += " \\fI" + troff(option->get_type_name()) + "\\fR";
    page += "\n" + troff(option->get_description());
    const std::string usual = option->get_default_str();
    if (option->get_required()) page += " (required)";
    if (!usual.empty() && usual != "\"\"") page += troff(" (default: " + usual + ")");
    page += "\n";
  }
  return page;
}

std::string subcommands_of(const CLI::App& app) {
  std::string page;
  for (const CLI::App* sub : app.get_subcommands({})) {
    page += ".SH COMMAND " + troff(sub->get_name()) + "\n" + troff(sub->get_description()) + "\n";
    page += options_of(*sub);
    if (!sub->get_footer().empty()) page += ".PP\n" + troff(sub->get_footer()) + "\n";
  }
  return page;
}

std::string examples_of(const Command& command) {
  std::string page;
  for (const Example& example : command.examples) {
    page += cat(".TP\n.B ", troff(example.line), "\n", troff(example.doc), "\n");
  }
  return page.empty() ? page : ".SH EXAMPLES\n" + page;
}

std::vector<std::string> words_of(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string see_also(const Command& command) {
  std::string page = ".SH SEE ALSO\n";
  for (const std::string& name : words_of(command.related))
    page += ".BR " + troff(name) + " (1),\n";
  std::string pages;
  for (const std::string& name : words_of(command.pages)) pages += "docs/" + name + ", ";
  return page + troff(pages + "docs/README.md in the sources") + "\n";
}

}  // namespace

std::string examples_help(const Command& command) {
  std::string help;
  for (const Example& example : command.examples) {
    help += cat("  ", example.line, "\n      ", example.doc, "\n");
  }
  return help.empty() ? help : "Examples:\n" + help + "\n";
}

std::string man_page(const CLI::App& app, const Command& command, const std::string& version,
                     const std::string& exit_codes) {
  const std::string name = troff(app.get_name());
  // Words are not hyphenated and lines not justified: names of files and options stay whole.
  std::string page =
      cat(".TH \"", app.get_name(), "\" 1 \"\" \"", version, "\" \"User Commands\"\n.nh\n.ad l\n");
  page += cat(".SH NAME\n", name, " \\- ", troff(command.doc), "\n");
  page += cat(".SH SYNOPSIS\n.B ", name, "\n");
  if (!app.get_subcommands({}).empty()) page += ".I COMMAND\n";
  page += "[\\fIOPTION\\fR]..." + arguments_of(app) + "\n";
  page += cat(".SH DESCRIPTION\n", troff(app.get_description()), "\n");
  page += ".SH OPTIONS\n" + options_of(app) + subcommands_of(app);
  page += cat(".SH EXIT STATUS\n", troff(exit_codes), "\n");
  return page + examples_of(command) + see_also(command);
}

}  // namespace dtn::app
