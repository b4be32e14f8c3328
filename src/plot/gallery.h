// Rows of small pictures with texts, such as images and those most similar to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtn::plot {

// A verdict is shown by a sign, by the frame's dashes and by its colour.
enum class Verdict { kNone, kRight, kWrong };

struct GalleryPicture {
  std::string png = {};          // bytes of the file, PNG or JPEG
  std::string description = {};  // visible content, for screen readers
  std::string text = {};         // below the picture
  std::string note = {};         // below the text, after the sign of the verdict
  Verdict verdict = Verdict::kNone;
};

struct GalleryHeading {
  std::string title, text;
};

struct Gallery {
  std::string name;     // anchor in a page: letters, digits, _ and -
  std::string title;    // content, in a few words
  std::string caption;  // explains how to read the rows
  // The first picture of each row stands apart. Rows have the same length. A phone shows each of
  // them in lines of three.
  std::vector<std::vector<GalleryPicture>> rows;
  bool pixelated = false;  // enlarge the pictures without smoothing, for very small ones
  bool large = false;      // a row takes the full width, and a phone shows one picture in a line
  // The pictures of a row are small tiles, in as many lines as they need. No picture stands apart,
  // and rows may have different lengths.
  bool tiles = false;
  // With tiles: a heading and a text above each row. Two rows stand side by side if there is room.
  // Empty: none.
  std::vector<GalleryHeading> headings = {};
};

std::string gallery_html(const Gallery& gallery);
// The rules that pages with galleries need.
std::string_view gallery_style();

}  // namespace dtn::plot
