// A report as one self-contained HTML file. It contains its pictures and numbers and fetches
// nothing. Its only script shows the values of charts (hover.h). It supports dark mode and the
// width of a phone.
#pragma once

#include <string>
#include <vector>

#include "plot/gallery.h"
#include "plot/sorted_table.h"
#include "plot/table.h"

namespace dtn::plot {

struct Figure {
  // Name of the figure's files and its anchor in a page: letters, digits, _ and -
  std::string name;
  std::string title;        // content, in a few words
  std::string caption;      // explains how to read the figure
  std::string description;  // visible content, for screen readers
  std::string svg;          // from Canvas::svg
  Table table;              // the same numbers
  // The same picture for a phone, kPhoneWidth wide. Empty: the wide picture scrolls.
  std::string phone_svg = {};
  std::string values = {};  // from hover_values(); empty: the pointer shows no values
  // Takes a cell of a grid, which has two columns on a wide screen. For pictures of at most
  // kCellWidth (chart.h).
  bool cell = false;
};
// Width of a figure on a phone, in CSS pixels.
inline constexpr double kPhoneWidth = 350;

// A figure of the result in large type, such as {"Best top-1", "81.2 %", "after epoch 12"}.
struct Card {
  std::string label, value, note = {};
};

// A table in a section.
struct SectionTable {
  std::string title = {};  // above the table; empty: none
  Table table = {};
  std::vector<std::string> notes = {};  // below the table
};

struct Section {
  std::string title;
  std::vector<std::string> paragraphs = {};
  std::vector<Figure> figures = {};
  std::vector<Gallery> galleries = {};          // below the figures
  std::vector<SortedTable> sorted_tables = {};  // below the galleries
  std::vector<SectionTable> tables = {};        // below the sorted tables
  // Shown without changes below all else, such as a config; empty: nothing.
  std::string preformatted = {};
};

struct Page {
  std::string title;
  std::vector<Card> cards = {};        // side by side, below the title
  std::vector<std::string> lead = {};  // lines below the cards
  Table overview = {};                 // below the lead
  std::vector<Section> folded = {};    // below the overview; each opens with a click on its title
  std::vector<Section> sections = {};
  std::string footer = {};
};

std::string html(const Page& page);

}  // namespace dtn::plot
