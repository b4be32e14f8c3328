// Manual pages, generated from the text of --help.
#include <ctime>

#include "apps/common/complete.h"
#include "dtn/core/check.h"

namespace dtn {
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

void add_options(const CLI::App& app, std::string& page) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    page += ".TP\n\\fB" + troff("--" + option->get_lnames().front()) + "\\fR";
    if (option->get_items_expected_max() > 0)
      page += " \\fI" + troff(option->get_type_name()) + "\\fR";
    page += "\n" + troff(option->get_description());
    const std::string usual = option->get_default_str();
    if (option->get_required()) page += " (required)";
    if (!usual.empty() && usual != "\"\"") page += troff(" (default: " + usual + ")");
    page += "\n";
  }
}

}  // namespace

std::string man_page(const CLI::App& app, const std::string& version) {
  const std::string& name = app.get_name();
  std::string page = cat(".TH \"", name, "\" 1 \"\" \"", version, "\" \"User Commands\"\n");
  page += ".SH NAME\n" + troff(name + " - " + app.get_description()) + "\n";
  page += ".SH SYNOPSIS\n.B " + troff(name) + "\n";
  if (!app.get_subcommands({}).empty()) page += ".I COMMAND\n";
  page += "[\\fIOPTION\\fR]...\n.SH OPTIONS\n";
  add_options(app, page);
  for (const CLI::App* sub : app.get_subcommands({})) {
    page += ".SH " + troff(name + " " + sub->get_name()) + "\n";
    page += troff(sub->get_description()) + "\n";
    add_options(*sub, page);
  }
  page += ".SH EXIT STATUS\n" + troff(app.get_footer()) + "\n";
  return page + ".SH SEE ALSO\n" +
         troff("dtn-info --keys explains the keys of configs, and docs/ of the sources the rest.") +
         "\n";
}

}  // namespace dtn
