#include "plot/page.h"

#include <algorithm>
#include <string_view>

#include "dtn/core/check.h"
#include "plot/color.h"
#include "plot/hover.h"
#include "plot/text.h"

namespace dtn::plot {
namespace {

constexpr std::string_view kStyle = R"css(
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem 1.25rem 3rem;overflow-wrap:anywhere;
background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:1rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-top:.5rem;border-top:1px solid var(--grid)}
h3{font-size:1rem;margin:1rem 0 .3rem}
p,ul.lead{max-width:48rem}
a{color:var(--s0)}
ul.lead{padding-left:1.2rem}ul.lead li{margin:.3rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.75rem;
margin:1rem 0}
.cards>div,.cell{border:1px solid var(--grid);border-radius:.5rem;min-width:0}
.cards>div{padding:.6rem .9rem}
.cards dt,.cards .note{font-size:.85rem;color:var(--soft)}
.cards dd{margin:0}.cards .value{font-size:1.4rem;font-weight:600;line-height:1.3}
.folded{border:1px solid var(--grid);border-radius:.5rem;padding:.5rem .9rem;margin:.75rem 0}
.folded>summary{font-size:1rem}
nav ol{columns:17rem;column-gap:2.5rem;margin:.3rem 0;padding-left:1.5rem;font-size:.9rem}
figure{margin:1.5rem 0 2.5rem}
figcaption{font-size:.9rem;color:var(--soft);margin:.5rem 0;max-width:48rem}
.grid{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,34rem),1fr))}
.cell{margin:0;padding:.5rem}
.cell svg[role]{width:100%;max-width:45rem;height:auto}
.scroll{overflow-x:auto}
.scroll>svg{display:block}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.15rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th{overflow-wrap:normal}th:first-child,td:first-child{text-align:left}
thead th{position:sticky;top:0;background:var(--paper)}
.phone{display:none}
@media(min-width:48rem){.scroll>svg{max-width:100%;height:auto}}
@media(max-width:40rem){.phone{display:block}.phone>svg{display:block;width:100%;height:auto}
.wide{display:none}body{padding-inline:.75rem}
.cards{grid-template-columns:1fr;gap:.5rem}
.cards>div{display:grid;grid-template-columns:minmax(40%,1fr) auto;align-items:baseline;column-gap:1rem}
.cards .note{grid-column:1/-1}
table{font-size:.85rem}th,td{padding:.15rem .4rem}th{white-space:normal}
td:first-child,th:first-child{white-space:normal;min-width:6rem;position:sticky;left:0;
background:var(--paper)}thead th:first-child{z-index:1}}
pre{white-space:pre-wrap;font-size:.85rem}
details{font-size:.85rem;margin:.5rem 0}
summary{cursor:pointer;color:var(--s0)}
.numbers{overflow:auto;margin-top:.5rem}details .numbers{max-height:28rem}
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
             dark, "}}\n", rules, kStyle, gallery_style(), sorted_table_style(), hover_style());
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
  std::string out = cat("<figure id=\"", f.name, "\"", f.cell ? " class=\"cell\"" : "");
  if (!f.values.empty()) out += cat(" data-values=\"", escaped(f.values), "\"");
  out += cat(">\n<div class=\"scroll", phone ? " wide" : "", "\"", f.cell ? "" : " tabindex=\"0\"",
             ">\n", f.svg, "</div>\n");
  if (phone) out += cat("<div class=\"phone\">\n", f.phone_svg, "</div>\n");
  if (!f.caption.empty()) out += cat("<figcaption>", escaped(f.caption), "</figcaption>\n");
  if (!f.table.columns.empty()) {
    out += cat("<details><summary>Numbers: ", escaped(f.title), "</summary>\n", table_html(f.table),
               "</details>\n");
  }
  return out + "</figure>\n";
}

// Puts neighbours that take a cell into one grid.
std::string figures_html(const std::vector<Figure>& figures) {
  std::string out;
  bool in_grid = false;
  for (const Figure& f : figures) {
    if (f.cell != in_grid) out += f.cell ? "<div class=\"grid\">\n" : "</div>\n";
    in_grid = f.cell;
    out += figure_html(f);
  }
  return in_grid ? out + "</div>\n" : out;
}

std::string cards_html(const std::vector<Card>& cards) {
  if (cards.empty()) return "";
  std::string out = "<dl class=\"cards\">\n";
  for (const Card& card : cards) {
    out += cat("<div><dt>", escaped(card.label), "</dt><dd class=\"value\">", escaped(card.value),
               "</dd>");
    if (!card.note.empty()) out += cat("<dd class=\"note\">", escaped(card.note), "</dd>");
    out += "</div>\n";
  }
  return out + "</dl>\n";
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
  if (items.empty()) return "";
  return cat("<nav aria-label=\"Figures\"><details class=\"folded\"><summary>Figures on this page",
             "</summary><ol>\n", items, "</ol></details></nav>\n");
}

std::string section_table_html(const SectionTable& t) {
  std::string out = t.title.empty() ? "" : cat("<h3>", escaped(t.title), "</h3>\n");
  out += table_html(t.table);
  for (const std::string& note : t.notes) out += cat("<p>", escaped(note), "</p>\n");
  return out;
}

std::string body_of(const Section& s) {
  std::string out;
  for (const std::string& p : s.paragraphs) out += cat("<p>", escaped(p), "</p>\n");
  out += figures_html(s.figures);
  for (const Gallery& g : s.galleries) out += gallery_html(g);
  for (const SortedTable& t : s.sorted_tables) out += sorted_table_html(t);
  for (const SectionTable& t : s.tables) out += section_table_html(t);
  if (!s.preformatted.empty()) {
    out += cat("<pre tabindex=\"0\">", escaped(s.preformatted), "</pre>\n");
  }
  return out;
}

bool has_values(const Page& page) {
  return std::ranges::any_of(page.sections, [](const Section& s) {
    return std::ranges::any_of(s.figures, [](const Figure& f) { return !f.values.empty(); });
  });
}

// The policy prevents all fetching and all other scripts, even if a name contains markup.
std::string head_html(const Page& page) {
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:",
      has_values(page) ? cat("; script-src '", hover_hash(), "'") : "",
      "\">\n<link rel=\"icon\" href=\"data:,\">\n<title>", escaped(page.title),
      "</title>\n<style>\n", style_sheet(), "</style>\n</head>\n");
}

}  // namespace

std::string html(const Page& page) {
  std::string out =
      cat(head_html(page), "<body>\n<h1>", escaped(page.title), "</h1>\n", cards_html(page.cards));
  if (!page.lead.empty()) {
    out += "<ul class=\"lead\">\n";
    for (const std::string& line : page.lead) out += cat("<li>", escaped(line), "</li>\n");
    out += "</ul>\n";
  }
  if (!page.overview.columns.empty()) out += table_html(page.overview);
  for (const Section& s : page.folded) {
    out += cat("<details class=\"folded\"><summary>", escaped(s.title), "</summary>\n", body_of(s),
               "</details>\n");
  }
  out += contents_html(page) + "<main>\n";
  for (const Section& s : page.sections) {
    out += cat("<section>\n<h2>", escaped(s.title), "</h2>\n", body_of(s), "</section>\n");
  }
  out += "</main>\n";
  if (!page.footer.empty()) out += cat("<footer>", escaped(page.footer), "</footer>\n");
  if (has_values(page)) out += cat("<script>", hover_script(), "</script>\n");
  return out + "</body>\n</html>\n";
}

}  // namespace dtn::plot
