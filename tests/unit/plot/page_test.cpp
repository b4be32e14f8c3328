#include "plot/page.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"
#include "plot/canvas.h"
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
  Page page{"<script>title</script>",
            {"line 1 <x>", "line 2"},
            {{"a<"}, {{"b>"}}},
            {{"section & more", {"text <p>"}, {figure}}},
            "made by <a>"};
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
