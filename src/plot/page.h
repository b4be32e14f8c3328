// A report as one HTML file that needs nothing else: pictures and numbers are inside, it has no
// script, fetches nothing, and follows the reader's light or dark dress and the width of a phone.
#pragma once

#include <string>
#include <vector>

namespace dtn::plot {

// Text as it is to be read; the writer escapes it.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Figure {
  std::string name;         // of its files, and of its place in a page: letters, digits, _ and -
  std::string title;        // what it shows, in a few words
  std::string caption;      // how to read it
  std::string description;  // what can be seen, for those who cannot
  std::string svg;          // of Canvas::svg
  Table table;              // the same numbers
};

struct Section {
  std::string title;
  std::vector<std::string> paragraphs = {};
  std::vector<Figure> figures = {};
  std::string preformatted = {};  // shown as it is, such as a config; empty: nothing
};

struct Page {
  std::string title;
  std::vector<std::string> lead = {};  // the lines that open it
  Table overview = {};                 // below them
  std::vector<Section> sections = {};
  std::string footer = {};
};

std::string html(const Page& page);

}  // namespace dtn::plot
