#include "data/table/table_columns.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr std::array<std::string_view, 9> kPathNames = {
    "path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img"};
constexpr std::array<std::string_view, 6> kLabelNames = {"label",      "labels",   "class",
                                                         "class_name", "category", "target"};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// Sets the position of a column. Throws DataError if it is set already.
void place(std::optional<std::size_t>& column, std::size_t i, const char* what,
           const CsvReader& reader) {
  if (column) reader.fail(cat("two columns of the header are ", what));
  column = i;
}

// Throws DataError for names of class columns that are empty or there twice.
void check_class_columns(const CsvReader& reader, const std::vector<std::size_t>& classes) {
  std::vector<std::string_view> names;
  for (const std::size_t i : classes) names.push_back(content_of(reader.fields()[i]));
  std::ranges::sort(names);
  if (names.front().empty()) reader.fail("a column of the header has no name");
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) reader.fail(cat("two columns of the header are '", *twice, "'"));
}

}  // namespace

std::string_view content_of(const CsvField& field) {
  return field.quoted ? field.text : without_blanks(field.text);
}

TableColumns columns_of_header(const CsvReader& reader, LabelsPerImage labels) {
  const std::span<const CsvField> fields = reader.fields();
  std::optional<std::size_t> path, label;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string name = lowered(std::string(content_of(fields[i])));
    if (std::ranges::find(kPathNames, name) != kPathNames.end()) {
      place(path, i, "paths", reader);
    } else if (std::ranges::find(kLabelNames, name) != kLabelNames.end()) {
      place(label, i, "labels", reader);
    } else {
      others.push_back(i);
    }
  }
  const bool by_class = labels == LabelsPerImage::kAny && path && !label;
  if (!others.empty() && !by_class) {
    reader.fail(cat("unknown column '", content_of(fields[others.front()]),
                    "'; the first line must be a header with the columns path and label alone, ",
                    labels == LabelsPerImage::kAny ? "or path and one column for each class, " : "",
                    "or begin with the name of an image"));
  }
  if (!path) reader.fail("the header has no column of paths; name it path");
  if (!label && others.empty()) reader.fail("the header has no column of labels; name it label");
  if (by_class) check_class_columns(reader, others);
  return {*path, label.value_or(0), fields.size(), std::move(others)};
}

}  // namespace dtn
