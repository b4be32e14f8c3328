#include "config/sweeps/sweep_columns.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "config/sweeps/sweep_file.h"

namespace dtn::config {
namespace {

const std::array<std::string, 2> kColumnKeys = {"name", "label"};

// The name is also part of the first line of table.csv.
std::string read_value_name(const Node& node, const std::string& path) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.";
  std::string name = read_line(node, path);
  if (name.find_first_not_of(kAllowed) != std::string::npos) {
    fail(node.where, path, " '", shown(name), "' cannot name a value of evaluations: use letters, ",
         "digits and _ - + .");
  }
  return name;
}

// Returns the node of the name: the item, or its key `name`.
const Node& name_of_column(const Node& item) {
  if (item.is_scalar()) return item;
  check_keys(item, "a column", kColumnKeys);
  const Node* name = item.value_at("name");
  if (name == nullptr) fail(item.where, "this column has no name");
  return *name;
}

SweepColumn read_column(const Node& item) {
  const Node& name = name_of_column(item);
  SweepColumn column;
  column.name = read_value_name(name, item.is_map() ? "name" : "columns");
  const Node* label = item.is_map() ? item.value_at("label") : nullptr;
  column.label = label ? read_line(*label, "label") : column.name;
  return column;
}

}  // namespace

std::vector<SweepColumn> read_columns(const Node& node) {
  if (node.is_null()) return {};
  if (!node.is_list()) {
    fail(node.where, "columns must be a list like [top5, {name: loss, label: \"the loss\"}], not ",
         shown(node));
  }
  std::vector<SweepColumn> columns;
  for (const Node& item : node.items) {
    SweepColumn column = read_column(item);
    if (std::ranges::find(columns, column.name, &SweepColumn::name) != columns.end()) {
      fail(name_of_column(item).where, "columns: '", column.name, "' is there twice");
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace dtn::config
