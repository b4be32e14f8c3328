#include "data/table/label_table.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "core/format.h"
#include "core/text.h"
#include "data/source/image_names.h"
#include "data/table/csv.h"
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

std::string_view content_of(const CsvField& field) {
  return field.quoted ? field.text : without_blanks(field.text);
}

// Positions of the columns.
struct Columns {
  std::size_t path = 0, label = 1, count = 2;
};

std::string shown_fields(std::span<const CsvField> fields, char delimiter) {
  std::string text;
  for (const CsvField& field : fields) {
    if (!text.empty()) text += delimiter == '\t' ? ' ' : delimiter;
    text += content_of(field);
  }
  return text;
}

bool is_header(std::span<const CsvField> fields) {
  return std::ranges::none_of(
      fields, [](const CsvField& field) { return is_image_name(content_of(field)); });
}

// Sets the position of a column. Throws DataError if it is set already.
void place(std::optional<std::size_t>& column, std::size_t i, const char* what,
           const CsvReader& reader) {
  if (column) reader.fail(cat("two columns of the header are ", what));
  column = i;
}

Columns columns_of_header(const CsvReader& reader) {
  const std::span<const CsvField> fields = reader.fields();
  std::optional<std::size_t> path, label;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string_view text = content_of(fields[i]);
    const std::string name = lowered(std::string(text));
    if (std::ranges::find(kPathNames, name) != kPathNames.end()) {
      place(path, i, "paths", reader);
    } else if (std::ranges::find(kLabelNames, name) != kLabelNames.end()) {
      place(label, i, "labels", reader);
    } else {
      reader.fail(cat("unknown column '", text,
                      "'; the first line must be a header with the columns path and label alone, "
                      "or begin with the name of an image"));
    }
  }
  if (!path) reader.fail("the header has no column of paths; name it path");
  if (!label) reader.fail("the header has no column of labels; name it label");
  return {*path, *label, fields.size()};
}

// Returns a path without "./" and "//". `buffer` is for the result, if it differs.
std::string_view plain_path(std::string_view path, std::string& buffer) {
  const bool is_plain = path.find("//") == path.npos && !path.starts_with("./") &&
                        path.find("/./") == path.npos && path.find("/../") == path.npos;
  if (is_plain) return path;
  buffer = std::filesystem::path(path).lexically_normal().string();
  return buffer;
}

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

class TableParser {
 public:
  explicit TableParser(const ByteSource& file)
      : delimiter_(delimiter_of(file)), reader_(file, delimiter_) {
    table_.name = file.name();
  }

  LabelTable parse() {
    bool first = true;
    while (reader_.next()) {
      if (first) read_layout();
      if (!first || !has_header_) add_line();
      first = false;
    }
    if (table_.paths.size() == 0) {
      throw DataError(cat(table_.name, ": has no line with a path and a label"));
    }
    return std::move(table_);
  }

 private:
  void read_layout() {
    first_line_ = reader_.line();
    has_header_ = is_header(reader_.fields());
    if (has_header_) columns_ = columns_of_header(reader_);
    if (!has_header_ && reader_.fields().size() != columns_.count) {
      reader_.fail(cat("has ", counted(reader_.fields().size(), "columns"),
                       " and no header; expected a path and a label, or a first line that names "
                       "the columns path and label"));
    }
    table_.layout = has_header_ ? cat("header ", shown_fields(reader_.fields(), delimiter_))
                                : std::string("no header");
    if (delimiter_ == ';') table_.layout += ", separated by semicolons";
    if (delimiter_ == '\t') table_.layout += ", separated by tabs";
  }

  void add_line() {
    const std::span<const CsvField> fields = reader_.fields();
    if (fields.size() != columns_.count) {
      reader_.fail(cat("has ", counted(fields.size(), "fields"), ", line ", first_line_, " has ",
                       columns_.count, "; put a field with a delimiter in quotes"));
    }
    const std::string_view path = content_of(fields[columns_.path]);
    const std::string_view label = content_of(fields[columns_.label]);
    if (path.empty()) reader_.fail("the path is empty");
    if (label.empty()) reader_.fail(cat("the label of '", path, "' is empty"));
    table_.paths.add(plain_path(path, buffer_));
    table_.lines.push_back(reader_.line());
    table_.text_of.push_back(position_of(label));
  }

  std::int32_t position_of(std::string_view label) {
    const auto found = positions_.find(label);
    if (found != positions_.end()) return found->second;
    const auto position = static_cast<std::int32_t>(table_.texts.size());
    positions_.emplace(label, position);
    table_.texts.emplace_back(label);
    return position;
  }

  char delimiter_;
  CsvReader reader_;
  LabelTable table_;
  Columns columns_;
  bool has_header_ = false;
  std::int64_t first_line_ = 1;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> positions_;
  std::string buffer_;
};

// Returns the positions of the paths in their order; equal paths are in the order of the file.
std::vector<std::size_t> sorted_positions(const NameList& paths) {
  std::vector<std::size_t> order(paths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto by_path = [&](std::size_t i, std::size_t k) {
    const std::string_view a = paths[i], b = paths[k];
    if (comes_before(a, b)) return true;
    return !comes_before(b, a) && a < b;  // "x" and "/x" have the same folder and name
  };
  if (!std::ranges::is_sorted(order, by_path)) std::ranges::stable_sort(order, by_path);
  return order;
}

// Throws DataError for the first line in the file whose path has another label in an earlier line.
void check_one_label(const LabelTable& table, const std::vector<std::size_t>& order) {
  std::size_t worst = table.paths.size(), earlier = 0;
  for (std::size_t k = 1, first = 0; k < order.size(); ++k) {
    if (table.paths[order[k]] != table.paths[order[first]]) {
      first = k;
    } else if (table.text_of[order[k]] != table.text_of[order[first]] && order[k] < worst) {
      worst = order[k];
      earlier = order[first];
    }
  }
  if (worst == table.paths.size()) return;
  const auto label = [&](std::size_t i) {
    return table.texts[static_cast<std::size_t>(table.text_of[i])];
  };
  table.fail_at(table.lines[worst], cat("'", table.paths[worst], "' has the label '", label(worst),
                                        "' here and '", label(earlier), "' in line ",
                                        table.lines[earlier], "; keep one of the two lines"));
}

// Returns the table in the given order, without repeated paths.
LabelTable arranged(const LabelTable& table, const std::vector<std::size_t>& order) {
  LabelTable result;
  result.name = table.name;
  result.texts = table.texts;
  result.layout = table.layout;
  result.text_of.reserve(order.size());
  result.lines.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k];
    if (k > 0 && table.paths[i] == table.paths[order[k - 1]]) {
      ++result.repeated;
      continue;
    }
    result.paths.add(table.paths[i]);
    result.text_of.push_back(table.text_of[i]);
    result.lines.push_back(table.lines[i]);
  }
  return result;
}

}  // namespace

void LabelTable::fail_at(std::int64_t line, const std::string& what) const {
  throw DataError(cat(name, ":", line, ": ", what));
}

LabelTable read_label_table(const ByteSource& file) {
  const LabelTable table = TableParser(file).parse();
  const std::vector<std::size_t> order = sorted_positions(table.paths);
  check_one_label(table, order);
  return arranged(table, order);
}

}  // namespace dtn
