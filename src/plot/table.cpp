#include "plot/table.h"

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

std::string head_html(const Table& table) {
  std::string out = "<thead><tr>";
  for (const std::string& c : table.columns) out += cat("<th scope=\"col\">", escaped(c), "</th>");
  return out + "</tr></thead>";
}

}  // namespace

std::string table_html(const Table& table, std::string_view style,
                       std::span<const std::string> row_styles) {
  const auto attribute = [](std::string_view value) {
    return value.empty() ? "" : cat(" style=\"", value, "\"");
  };
  std::string out = cat("<div class=\"numbers\" tabindex=\"0\"><table", attribute(style), ">",
                        head_html(table), "<tbody>\n");
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    out += cat("<tr", r < row_styles.size() ? attribute(row_styles[r]) : "", ">");
    for (const std::string& cell : table.rows[r]) out += cat("<td>", escaped(cell), "</td>");
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace dtn::plot
