#include "plot/sorted_table.h"

#include "dtn/core/check.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

// A row has its place in order i as the variable --o<i>, and its cells take the place of the chosen
// order in a grid. Cells of equal order keep the sequence of the columns.
constexpr std::string_view kSortedStyle = R"css(
.sorted{position:relative}
.sorted>input{position:absolute;opacity:0}
.sorted>label{display:inline-block;margin:0 .3rem .4rem 0;padding:.1rem .6rem;cursor:pointer;
border:1px solid var(--grid);border-radius:1rem;font-size:.9rem;white-space:nowrap}
.sorted>input:checked+label{border-color:var(--s0);color:var(--s0)}
.sorted>input:focus-visible+label{outline:2px solid var(--s0)}
.sorted .numbers{max-height:36rem}
.sorted table{display:grid;justify-content:start}
.sorted thead,.sorted tbody,.sorted tr{display:contents}
.sorted th:first-child,.sorted td:first-child{white-space:normal;max-width:18rem}
.sorted td{order:var(--o0)}
.sorted>.o1:checked~.numbers td{order:var(--o1)}
.sorted>.o2:checked~.numbers td{order:var(--o2)}
.sorted>.o3:checked~.numbers td{order:var(--o3)}
.sorted>.o4:checked~.numbers td{order:var(--o4)}
.sorted>.o5:checked~.numbers td{order:var(--o5)}
.sorted>.o6:checked~.numbers td{order:var(--o6)}
.sorted>.o7:checked~.numbers td{order:var(--o7)}
@media(max-width:40rem){.sorted th:first-child,.sorted td:first-child{min-width:6rem;max-width:8rem}
.sorted table{font-size:.85rem}.sorted th,.sorted td{padding:.15rem .4rem}}
)css";

// Returns the place of each row in each order, from 1 on, as style attributes.
std::vector<std::string> places_of(const SortedTable& sorted) {
  const std::size_t rows = sorted.table.rows.size();
  std::vector<std::string> styles(rows);
  for (std::size_t o = 0; o < sorted.orders.size(); ++o) {
    const TableOrder& order = sorted.orders[o];
    DTN_CHECK(order.rows.size() == rows, "the order '", order.label, "' has ", order.rows.size(),
              " of ", rows, " rows");
    for (std::size_t place = 0; place < rows; ++place) {
      styles.at(order.rows[place]) += cat("--o", o, ":", place + 1, ";");
    }
  }
  return styles;
}

}  // namespace

std::string sorted_table_html(const SortedTable& sorted) {
  DTN_CHECK(!sorted.orders.empty() && sorted.orders.size() <= kMaxTableOrders, "a table with ",
            sorted.orders.size(), " orders");
  std::string out = cat("<figure id=\"", sorted.name, "\" class=\"sorted\">\n<figcaption>",
                        escaped(sorted.caption), "</figcaption>\n");
  for (std::size_t o = 0; o < sorted.orders.size(); ++o) {
    const std::string id = cat(sorted.name, "-order-", o);
    out += cat("<input type=\"radio\" class=\"o", o, "\" name=\"", sorted.name, "-order\" id=\"",
               id, "\"", o == 0 ? " checked=\"\"" : "", "><label for=\"", id, "\">",
               escaped(sorted.orders[o].label), "</label>\n");
  }
  const std::string style =
      cat("grid-template-columns:repeat(", sorted.table.columns.size(), ",auto)");
  return out + table_html(sorted.table, style, places_of(sorted)) + "</figure>\n";
}

std::string_view sorted_table_style() { return kSortedStyle; }

}  // namespace dtn::plot
