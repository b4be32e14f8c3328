// Tables of text as HTML.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::plot {

// Plain text; it is escaped.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// Returns the table in a frame that scrolls if it is too wide. `style` is the CSS of the table, and
// `row_styles` that of each row, neither of which is escaped.
std::string table_html(const Table& table, std::string_view style = {},
                       std::span<const std::string> row_styles = {});

}  // namespace dtn::plot
