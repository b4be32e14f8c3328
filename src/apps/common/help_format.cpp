#include "apps/common/help_format.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

constexpr std::size_t kNames = 24;  // columns of the names, with the spaces around them

// Splits "FLOAT:FLOAT in [0.05 - 10]", the type of a value and what it is checked for.
std::vector<std::string> parts_of(const std::string& type) {
  std::vector<std::string> parts;
  std::istringstream in(type);
  for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
  return parts;
}

std::string value_name(const CLI::Option& option) {
  std::string name;
  for (std::string part : parts_of(option.get_type_name())) {
    if (part.starts_with("{") && part.ends_with("}")) {  // the allowed words
      std::ranges::replace(part, ',', '|');
      return part.substr(1, part.size() - 2);
    }
    if (name.empty()) name = part;
  }
  if (name == "FLOAT") return "NUMBER";
  return name == "INT" || name == "UINT" ? "N" : name;
}

// Replaces line breaks by spaces, but for those before an empty or indented line.
std::string joined_lines(const std::string& text) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool breaks = text[i] == '\n' && i + 1 < text.size() && text[i + 1] != '\n' &&
                        text[i + 1] != ' ' && i > 0 && text[i - 1] != '\n';
    joined += breaks ? ' ' : text[i];
  }
  return joined;
}

void wrap_line(const std::string& line, std::size_t width, std::string& out) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::istringstream in(line);
  std::size_t column = 0;
  for (std::string word; in >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    out += column == 0 ? std::string(indent, ' ') : " ";
    column += (column == 0 ? indent : 1) + word.size();
    out += word;
  }
}

}  // namespace

std::string wrap_lines(const std::string& text, std::size_t width) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line); out += '\n') {
    line.starts_with("  dtn") ? void(out += line) : wrap_line(line, width, out);
  }
  return out;
}

std::string shown_name(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames())
    names += cat(names.empty() ? "" : ", ", "-", name);
  for (const std::string& name : option.get_lnames())
    names += cat(names.empty() ? "" : ", ", "--", name);
  if (names.empty()) names = option.get_name(true);
  const std::string value = value_name(option);
  const bool is_flag = option.get_items_expected_max() == 0 || option.get_type_size() == 0;
  if (is_flag) return value.find('|') == value.npos ? names : cat(names, "[=", value, "]");
  if (option.get_items_expected_min() == 0) return cat(names, "[=", value, "]");
  const bool is_list = option.get_items_expected_max() > 1;
  return cat(names, value.empty() ? "" : " ", value, is_list ? "..." : "");
}

std::string shown_limits(const CLI::Option& option) {
  std::string limits;
  const auto add = [&](const std::string& text) {
    limits += cat(limits.empty() ? " (" : "; ", text);
  };
  for (const std::string& part : parts_of(option.get_type_name())) {
    const std::size_t open = part.find(" in ["), dash = part.find(" - ", open);
    if (open == part.npos || dash == part.npos || !part.ends_with("]")) continue;
    const std::size_t begin = open + std::string(" in [").size(),
                      end = dash + std::string(" - ").size();
    add(cat(part.substr(begin, dash - begin), " to ", part.substr(end, part.size() - 1 - end)));
  }
  const std::string usual = option.get_default_str();
  const bool takes_value = option.get_items_expected_max() > 0 && option.get_type_size() != 0;
  if (option.get_required()) add("required");
  if (takes_value && !usual.empty() && usual != "\"\"" && usual != "[]") add("default: " + usual);
  return limits.empty() ? limits : limits + ")";
}

std::string HelpFormatter::entry(const std::string& names, const std::string& description) const {
  const std::string indent(kNames, ' ');
  std::string text = wrap_lines(indent + joined_lines(description), width_);
  const std::string first = "  " + names;
  if (first.size() + 2 <= kNames) return first + text.substr(first.size());
  return first + "\n" + text;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrap_lines(joined_lines(app->get_description()), width_) + "\n";
}

std::string HelpFormatter::arguments(const CLI::App& app) const {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    const std::string value = value_name(*option);
    const std::string name = cat(option->get_name(true), value == "TEXT" ? "" : " " + value,
                                 option->get_items_expected_max() > 1 ? "..." : "");
    const std::vector<std::string>& same = option->get_lnames();
    text += entry(name, same.empty() ? option->get_description() + shown_limits(*option)
                                     : cat("the same as --", same.front()));
  }
  return text.empty() ? text : "\nArguments:\n" + text;
}

std::string HelpFormatter::groups(const CLI::App& app) const {
  std::vector<std::pair<std::string, std::string>> all = {{"Options", ""}};
  const auto group_of = [](const CLI::Option& option) {
    const auto& needs = option.get_needs();
    if (needs.size() == 1) return cat("With ", (*needs.begin())->get_name());
    return option.get_group();
  };
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    const std::string group = group_of(*option);
    auto found = std::ranges::find(all, group, &std::pair<std::string, std::string>::first);
    if (found == all.end()) found = all.insert(all.end(), {group, ""});
    found->second += entry(shown_name(*option), option->get_description() + shown_limits(*option));
  }
  const auto is_early = [](const auto& group) {
    return group.first != kMachineGroup && group.first != kHelpGroup;
  };
  const auto late = std::stable_partition(all.begin(), all.end(), is_early);
  std::stable_partition(late, all.end(),
                        [](const auto& group) { return group.first == kMachineGroup; });
  std::string text;
  for (const auto& [name, entries] : all) {
    if (!entries.empty()) text += cat("\n", name, ":\n", entries);
  }
  return text;
}

// Description, usage, arguments, options, subcommands and footer.
std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  return make_description(app) + make_usage(app, std::move(name)) + arguments(*app) + groups(*app) +
         make_subcommands(app, mode) + "\n" + make_footer(app);
}

std::string HelpFormatter::make_subcommand(const CLI::App* app) const {
  return entry(app->get_name(), app->get_description());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  return wrap_lines(app->get_footer(), width_);
}

void format_help(CLI::App& app, std::size_t width) {
  app.formatter(std::make_shared<HelpFormatter>(width));
  for (CLI::App* subcommand : app.get_subcommands({})) format_help(*subcommand, width);
}

}  // namespace dtn::app
