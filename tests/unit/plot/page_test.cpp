#include "plot/page.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "plot/canvas.h"
#include "plot/hover.h"
#include "xml_check.h"

namespace dtn::plot {
namespace {

Page hostile_page() {
  Canvas canvas(100, 50);
  canvas.text({10, 20}, "</svg><script>alert(1)</script>");
  Figure figure{"loss",
                "<b>loss</b>",
                "caption <img src=x>",
                "\"><script>",
                canvas.svg("\"><script>"),
                {{"run", "loss"}, {{"<i>LN</i>", "0.1"}, {"\xFF&", "0.2"}}}};
  Page page{.title = "<script>title</script>",
            .lead = {"line 1 <x>", "line 2"},
            .overview = {{"a<"}, {{"b>"}}},
            .sections = {{"section & more", {"text <p>"}, {figure}}},
            .footer = "made by <a>"};
  page.sections[0].tables = {
      {.title = "<script>sizes", .table = {{"<i>size"}, {{"<img>"}}}, .notes = {"<script>note"}}};
  return page;
}

TEST(PlotPage, EscapesNames) {
  const std::string page = html(hostile_page());
  EXPECT_EQ(xml_fault(page, true), "");
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<i>"), std::string::npos);
}

TEST(PlotPage, HasNoExternalReferences) {
  std::string page = html(hostile_page());
  const std::string name_space = "http://www.w3.org/2000/svg";
  for (std::size_t at; (at = page.find(name_space)) != std::string::npos;) {
    page.erase(at, name_space.size());
  }
  EXPECT_EQ(page.find("://"), std::string::npos);
  EXPECT_EQ(page.find("url("), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(PlotPage, GalleriesShowVerdictsBySignAndFrame) {
  Gallery gallery{.name = "near", .title = "Near <b>", .caption = "<i>how</i>", .rows = {}};
  gallery.rows = {{{"png", "a \"query\"", "<b>a</b>", "vote: a", Verdict::kNone},
                   {"png", "", "b", "0.5", Verdict::kRight},
                   {"png", "", "c", "0.25", Verdict::kWrong}}};
  Page page;
  page.sections.push_back({.title = "s", .galleries = {gallery}});
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  for (const char* part :
       {"<li><a href=\"#near\">Near &lt;b&gt;</a></li>", "<figure id=\"near\"",
        "<div><img alt=\"a &quot;query&quot;\" src=\"data:image/png;base64,cG5n\">&lt;b&gt;a",
        "<div class=\"right\">", "aria-label=\"right\">\xE2\x9C\x93</span> 0.5",
        "<div class=\"wrong\">", "aria-label=\"wrong\">\xE2\x9C\x97</span> 0.25"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(PlotPage, TilesHaveRowsOfDifferentLengthsWithHeadings) {
  Gallery gallery{.name = "pairs", .title = "Pairs", .caption = "how", .rows = {}, .tiles = true};
  gallery.rows = {{{.png = "png", .text = "a"}, {.png = "png", .text = "b"}}, {}};
  gallery.headings = {{"cat <b>", "3 of 4"}, {"dog", "1 of 4"}};
  Page page;
  page.sections.push_back({.title = "s", .galleries = {gallery}});
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  for (const char* part :
       {"<ul class=\"tiles headed\">", "<h3>cat &lt;b&gt; <span>3 of 4</span></h3>",
        "<h3>dog <span>1 of 4</span></h3>\n</li>"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  gallery.headings.pop_back();
  EXPECT_THROW(gallery_html(gallery), Error);
}

SortedTable sorted_table() {
  return {.name = "classes",
          .title = "Classes",
          .caption = "F1 < 1",
          .table = {{"class", "F1"}, {{"<b>cat", "0.9"}, {"dog", "0.2"}, {"emu", "0.5"}}},
          .orders = {{"lowest F1", {1, 2, 0}}, {"label", {0, 1, 2}}}};
}

TEST(PlotPage, TablesAreSortedWithoutAScript) {
  Page page;
  page.sections.push_back({.title = "s", .sorted_tables = {sorted_table()}});
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  EXPECT_EQ(text.find("<script"), std::string::npos);
  // Each row has its place in both orders.
  for (const char* part :
       {"<li><a href=\"#classes\">Classes</a></li>", "grid-template-columns:repeat(2,auto)",
        "<tr style=\"--o0:3;--o1:1;\"><td>&lt;b&gt;cat</td>",
        "<tr style=\"--o0:1;--o1:2;\"><td>dog</td>", "<tr style=\"--o0:2;--o1:3;\"><td>emu</td>",
        "name=\"classes-order\" id=\"classes-order-0\" checked=\"\"",
        "<label for=\"classes-order-1\">label</label>", ".sorted>.o1:checked~.numbers td"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(PlotPage, OrdersMustHaveAllRows) {
  SortedTable wrong = sorted_table();
  wrong.orders[0].rows.pop_back();
  EXPECT_THROW(sorted_table_html(wrong), Error);
  wrong = sorted_table();
  wrong.orders.clear();
  EXPECT_THROW(sorted_table_html(wrong), Error);
}

TEST(PlotPage, PhonesGetNarrowPictureIfPresent) {
  Page page;
  page.sections = {{"s", {}, {{"a", "t", "c", "d", "<svg>1</svg>", {}}}}};
  EXPECT_EQ(html(page).find("<div class=\"phone\">"), std::string::npos);
  page.sections[0].figures[0].phone_svg = "<svg>2</svg>";
  const std::string text = html(page);
  EXPECT_NE(text.find("<div class=\"scroll wide\" tabindex=\"0\">\n<svg>1</svg>"),
            std::string::npos);
  EXPECT_NE(text.find("<div class=\"phone\">\n<svg>2</svg>"), std::string::npos);
}

TEST(PlotPage, SectionsMayHaveATable) {
  Page page;
  page.sections = {{"s"}};
  EXPECT_EQ(html(page).find("<h3>"), std::string::npos);
  EXPECT_EQ(html(page).find("<table>"), std::string::npos);
  page.sections[0].tables = {{.title = "Sizes", .table = {{"norm"}, {{"DTN"}}}}};
  const std::string text = html(page);
  EXPECT_NE(text.find("<h3>Sizes</h3>\n<div class=\"numbers\" tabindex=\"0\"><table>"),
            std::string::npos);
  EXPECT_NE(text.find("<td>DTN</td>"), std::string::npos);
}

TEST(PlotPage, CardsComeFirstAndAreEscaped) {
  Page page{
      .title = "t", .cards = {{"Best <b>", "81 %", "after <i>"}, {"Time", "3 s"}}, .lead = {"l"}};
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  const std::size_t at = text.find(
      "<dl class=\"cards\">\n<div><dt>Best &lt;b&gt;</dt><dd class=\"value\">81 %</dd>"
      "<dd class=\"note\">after &lt;i&gt;</dd></div>\n"
      "<div><dt>Time</dt><dd class=\"value\">3 s</dd></div>\n</dl>");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(at, text.find("<ul class=\"lead\">"));
}

TEST(PlotPage, FoldedSectionsOpenWithAClick) {
  Page page;
  page.folded = {{.title = "Con<fig", .preformatted = "a: <1>"}};
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  EXPECT_NE(text.find("<details class=\"folded\"><summary>Con&lt;fig</summary>\n"
                      "<pre tabindex=\"0\">a: &lt;1&gt;</pre>\n</details>"),
            std::string::npos);
}

TEST(PlotPage, NeighbouringCellsFormOneGrid) {
  const auto figure = [](const char* name, bool cell) {
    Figure made{name, "t", "c", "d", "<svg></svg>", {}};
    made.cell = cell;
    return made;
  };
  Page page;
  page.sections = {
      {"s", {}, {figure("a", true), figure("b", true), figure("c", false), figure("d", true)}}};
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  std::string order;
  for (const char* part : {"<div class=\"grid\">", "id=\"a\" class=\"cell\"", "id=\"b\"",
                           "</div>\n"
                           "<figure id=\"c\">",
                           "<div class=\"grid\">\n<figure id=\"d\""}) {
    const std::size_t at = text.find(part, order.size());
    ASSERT_NE(at, std::string::npos) << part;
    order = text.substr(0, at + 1);
  }
}

// A width in pixels of CSS or of a table must not be wider than a phone. Pictures scale or scroll.
TEST(PlotPage, StyleHasNoWidthBeyondAPhone) {
  const std::string text = html(hostile_page());
  const std::string style = text.substr(text.find("<style>"), text.find("</style>"));
  std::size_t found = 0;
  for (std::size_t at = 0; (at = style.find("width:", at)) != std::string::npos; ++at) {
    if (style.substr(0, at).ends_with("max-")) continue;
    const std::string value = style.substr(at + 6, style.find_first_of(";})", at) - at - 6);
    ++found;
    if (value.ends_with("rem") && !style.substr(0, at).ends_with("@media(min-")) {
      EXPECT_LE(16 * std::stod(value), 390) << value;
    }
    EXPECT_FALSE(value.ends_with("px") && std::stod(value) > 390) << value;
  }
  EXPECT_GT(found, 3u);
  EXPECT_NE(style.find("minmax(min(100%,34rem),1fr)"), std::string::npos) << "the grid folds";
}

TEST(PlotPage, OnlyPagesWithValuesHaveAScript) {
  Page page = hostile_page();
  EXPECT_EQ(html(page).find("script-src"), std::string::npos);
  const std::vector<Series> lines = {
      {"\"</script><script>", {1, 2}, {0.5, kMissing}, {0.25, 0.5}, {0.75, 1}}};
  page.sections[0].figures[0].values = hover_values("epoch", lines);
  const std::string text = html(page);
  EXPECT_EQ(xml_fault(text, true), "");
  EXPECT_NE(text.find(cat("; script-src '", hover_hash(), "'\">")), std::string::npos);
  EXPECT_EQ(text.find("<script>"), text.rfind("<script>"));
  EXPECT_NE(text.find(cat("<script>", hover_script(), "</script>")), std::string::npos);
  EXPECT_EQ(hover_script().find("</"), std::string_view::npos);
  EXPECT_NE(
      text.find("data-values=\"{&quot;x&quot;:&quot;epoch&quot;,&quot;lines&quot;:[{&quot;name"
                "&quot;:&quot;\\&quot;&lt;/script&gt;&lt;script&gt;&quot;"),
      std::string::npos);
}

TEST(PlotHover, ValuesAreJson) {
  const std::vector<Series> lines = {{"a\n\\", {1, 2}, {0.123456789, kMissing}, {}, {}, 1},
                                     {"empty", {}, {}, {}, {}, 2},
                                     {.label = "thin", .x = {3}, .y = {1e-9}, .markers = false}};
  EXPECT_EQ(
      hover_values("e\"", lines),
      R"({"x":"e\"","lines":[{"name":"a\u000a\\","paint":"s1","mark":"■","x":[1,2],)"
      R"("y":[0.123457,null]},{"name":"thin","paint":"s0","mark":"—","x":[3],"y":[1e-09]}]})");
}

TEST(PlotPage, SupportsDarkMode) {
  const std::string page = html(hostile_page());
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(page.find(".f-ink{fill:var(--ink)}"), std::string::npos);
}

TEST(PlotPage, LinksPointToFigures) {
  const std::string page = html(hostile_page());
  EXPECT_NE(page.find("href=\"#loss\""), std::string::npos);
  EXPECT_NE(page.find("<figure id=\"loss\">"), std::string::npos);
  Page wrong = hostile_page();
  wrong.sections[0].figures[0].name = "a b";
  EXPECT_THROW(html(wrong), Error);
}

}  // namespace
}  // namespace dtn::plot
