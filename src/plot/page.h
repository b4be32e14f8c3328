// A report as one self-contained HTML file. It contains its pictures and numbers, has no script and
// fetches nothing. It supports dark mode and the width of a phone.
#pragma once

#include <string>
#include <vector>

#include "plot/gallery.h"

namespace dtn::plot {

// Plain text; html() escapes it.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

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
};
// Width of a page's text on a phone, in CSS pixels.
inline constexpr double kPhoneWidth = 350;

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
  std::vector<Gallery> galleries = {};    // below the figures
  std::vector<SectionTable> tables = {};  // below the galleries
  std::string preformatted = {};          // shown without changes, such as a config; empty: nothing
};

struct Page {
  std::string title;
  std::vector<std::string> lead = {};  // first lines
  Table overview = {};                 // below the first lines
  std::vector<Section> sections = {};
  std::string footer = {};
};

std::string html(const Page& page);

}  // namespace dtn::plot
