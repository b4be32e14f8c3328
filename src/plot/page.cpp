#include "plot/page.h"

#include <algorithm>
#include <string_view>

#include "dtn/core/check.h"
#include "plot/color.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr std::string_view kStyle = R"css(
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1rem 1.25rem 3rem;overflow-wrap:anywhere;
background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:1rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--grid)}
h3{font-size:1rem;margin:1rem 0 .3rem}
a{color:var(--s0)}
ul.lead{padding-left:1.2rem}ul.lead li{margin:.3rem 0}
nav{margin:1.5rem 0;font-size:.9rem}
nav ol{columns:17rem;column-gap:2.5rem;margin:.3rem 0;padding-left:1.5rem}
figure{margin:1.5rem 0 2.5rem}
figcaption{font-size:.9rem;color:var(--soft);margin:.5rem 0;max-width:48rem}
.scroll{overflow-x:auto}
.scroll>svg{display:block;margin:0 auto}
.phone{display:none}
@media(min-width:48rem){.scroll>svg{max-width:100%;height:auto}}
@media(max-width:40rem){.phone{display:block}.phone>svg{max-width:100%;height:auto}.wide{display:none}
td:first-child,th:first-child{white-space:normal;min-width:9rem;position:sticky;left:0;
background:var(--paper)}thead th:first-child{z-index:1}}
pre{overflow-x:auto;font-size:.85rem}
details{font-size:.85rem;margin:.5rem 0}
summary{cursor:pointer;color:var(--s0)}
.numbers{overflow:auto;margin-top:.5rem}details .numbers{max-height:28rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}
thead th{position:sticky;top:0;background:var(--paper)}
footer{font-size:.85rem;color:var(--soft);border-top:1px solid var(--grid);margin-top:3rem;
padding-top:.5rem}
@media print{details{display:none}figure{break-inside:avoid}}
)css";

// Defines the colours as variables, and the classes that use them.
std::string style_sheet() {
  std::string light, dark, rules;
  for (const Paint& p : all_paints()) {
    light += cat("--", p.name, ":", hex(p.light), ";");
    dark += cat("--", p.name, ":", hex(p.dark), ";");
    rules += cat(".f-", p.name, "{fill:var(--", p.name, ")}.k-", p.name, "{stroke:var(--", p.name,
                 ")}\n");
  }
  return cat(":root{color-scheme:light dark;", light, "}\n@media(prefers-color-scheme:dark){:root{",
             dark, "}}\n", rules, kStyle, gallery_style(), sorted_table_style());
}

void check_name(const std::string& name) {
  constexpr const char* kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  DTN_CHECK(!name.empty() && name.find_first_not_of(kAllowed) == name.npos, "a figure named '",
            name, "'");
}

std::string figure_html(const Figure& f) {
  check_name(f.name);
  const bool phone = !f.phone_svg.empty();
  std::string out = cat("<figure id=\"", f.name, "\">\n<div class=\"scroll", phone ? " wide" : "",
                        "\" tabindex=\"0\">\n", f.svg, "</div>\n");
  if (phone) out += cat("<div class=\"phone\">\n", f.phone_svg, "</div>\n");
  out += cat("<figcaption>", escaped(f.caption), "</figcaption>\n");
  if (!f.table.columns.empty()) {
    out += cat("<details><summary>Numbers: ", escaped(f.title), "</summary>\n", table_html(f.table),
               "</details>\n");
  }
  return out + "</figure>\n";
}

std::string contents_html(const Page& page) {
  std::string items;
  const auto add = [&](const auto& shown) {
    items += cat("<li><a href=\"#", shown.name, "\">", escaped(shown.title), "</a></li>\n");
  };
  for (const Section& s : page.sections) {
    std::ranges::for_each(s.figures, add);
    std::ranges::for_each(s.galleries, add);
    std::ranges::for_each(s.sorted_tables, add);
  }
  return items.empty() ? "" : cat("<nav aria-label=\"Figures\"><ol>\n", items, "</ol></nav>\n");
}

std::string section_table_html(const SectionTable& t) {
  std::string out = t.title.empty() ? "" : cat("<h3>", escaped(t.title), "</h3>\n");
  out += table_html(t.table);
  for (const std::string& note : t.notes) out += cat("<p>", escaped(note), "</p>\n");
  return out;
}

}  // namespace

std::string html(const Page& page) {
  std::string out = cat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // Prevents all fetching, even if a name in the report contains markup.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      escaped(page.title), "</title>\n<style>\n", style_sheet(), "</style>\n</head>\n<body>\n<h1>",
      escaped(page.title), "</h1>\n");
  if (!page.lead.empty()) {
    out += "<ul class=\"lead\">\n";
    for (const std::string& line : page.lead) out += cat("<li>", escaped(line), "</li>\n");
    out += "</ul>\n";
  }
  if (!page.overview.columns.empty()) out += table_html(page.overview);
  out += contents_html(page) + "<main>\n";
  for (const Section& s : page.sections) {
    out += cat("<section>\n<h2>", escaped(s.title), "</h2>\n");
    for (const std::string& p : s.paragraphs) out += cat("<p>", escaped(p), "</p>\n");
    for (const Figure& f : s.figures) out += figure_html(f);
    for (const Gallery& g : s.galleries) out += gallery_html(g);
    for (const SortedTable& t : s.sorted_tables) out += sorted_table_html(t);
    for (const SectionTable& t : s.tables) out += section_table_html(t);
    if (!s.preformatted.empty()) {
      out += cat("<pre tabindex=\"0\">", escaped(s.preformatted), "</pre>\n");
    }
    out += "</section>\n";
  }
  out += "</main>\n";
  if (!page.footer.empty()) out += cat("<footer>", escaped(page.footer), "</footer>\n");
  return out + "</body>\n</html>\n";
}

}  // namespace dtn::plot
