// A table that the reader of a page sorts, without a script: each order is a choice above it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plot/table.h"

namespace dtn::plot {

struct TableOrder {
  std::string label;              // "lowest F1"
  std::vector<std::size_t> rows;  // all rows of the table, in this order
};

inline constexpr std::size_t kMaxTableOrders = 8;

struct SortedTable {
  std::string name;     // anchor in a page: letters, digits, _ and -
  std::string title;    // content, in a few words
  std::string caption;  // explains how to read the table
  Table table;
  std::vector<TableOrder> orders;  // 1 to kMaxTableOrders; the first is shown at first
};

std::string sorted_table_html(const SortedTable& sorted);
// The rules that pages with such tables need.
std::string_view sorted_table_style();

}  // namespace dtn::plot
