#include "data/table/label_table.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <unordered_map>

#include "core/format.h"
#include "core/text.h"
#include "data/source/image_names.h"
#include "data/table/csv.h"
#include "data/table/table_columns.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

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

using Positions = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;
using Combination = std::vector<std::int32_t>;

// Sets of labels, each once.
class Combinations {
 public:
  explicit Combinations(std::vector<Combination>& all) : all_(all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      positions_.emplace(all[i], static_cast<std::int32_t>(i));
    }
  }

  // Returns the position of a set, which is ascending.
  std::int32_t position_of(const Combination& combination) {
    const auto [found, is_new] =
        positions_.emplace(combination, static_cast<std::int32_t>(all_.size()));
    if (is_new) all_.push_back(combination);
    return found->second;
  }

 private:
  std::vector<Combination>& all_;
  std::map<Combination, std::int32_t> positions_;
};

class TableParser {
 public:
  TableParser(const ByteSource& file, LabelsPerImage labels)
      : delimiter_(delimiter_of(file)), labels_(labels), reader_(file, delimiter_) {
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
    if (has_header_) columns_ = columns_of_header(reader_, labels_);
    if (!has_header_ && reader_.fields().size() != columns_.count) {
      reader_.fail(cat("has ", counted(reader_.fields().size(), "columns"),
                       " and no header; expected a path and a label, or a first line that names "
                       "the columns path and label"));
    }
    for (const std::size_t i : columns_.classes) {
      table_.texts.emplace_back(content_of(reader_.fields()[i]));
    }
    table_.layout = layout_of(reader_.fields());
    if (delimiter_ == ';') table_.layout += ", separated by semicolons";
    if (delimiter_ == '\t') table_.layout += ", separated by tabs";
  }

  std::string layout_of(std::span<const CsvField> fields) const {
    if (!has_header_) return "no header";
    if (columns_.classes.empty()) return cat("header ", shown_fields(fields, delimiter_));
    return cat("header with a column for each of ", counted(columns_.classes.size(), "classes"));
  }

  void add_line() {
    const std::span<const CsvField> fields = reader_.fields();
    if (fields.size() != columns_.count) {
      reader_.fail(cat("has ", counted(fields.size(), "fields"), ", line ", first_line_, " has ",
                       columns_.count, "; put a field with a delimiter in quotes"));
    }
    const std::string_view path = content_of(fields[columns_.path]);
    if (path.empty()) reader_.fail("the path is empty");
    table_.paths.add(plain_path(path, buffer_));
    table_.lines.push_back(reader_.line());
    table_.text_of.push_back(label_of(fields, path));
  }

  std::int32_t label_of(std::span<const CsvField> fields, std::string_view path) {
    if (!columns_.classes.empty()) return combination_of_columns(fields);
    const std::string_view label = content_of(fields[columns_.label]);
    if (labels_ == LabelsPerImage::kAny) return combination_of_text(label);
    if (label.empty()) reader_.fail(cat("the label of '", path, "' is empty"));
    return position_of(label);
  }

  std::int32_t position_of(std::string_view label) {
    const auto found = positions_.find(label);
    if (found != positions_.end()) return found->second;
    const auto position = static_cast<std::int32_t>(table_.texts.size());
    positions_.emplace(label, position);
    table_.texts.emplace_back(label);
    return position;
  }

  // Reads labels with semicolons between them.
  std::int32_t combination_of_text(std::string_view text) {
    const auto known = of_texts_.find(text);
    if (known != of_texts_.end()) return known->second;
    Combination combination;
    for (const std::string_view part : split(text, ';')) {
      const std::string_view label = content_of({part, false});
      if (!label.empty()) combination.push_back(position_of(label));
    }
    std::ranges::sort(combination);
    combination.erase(std::unique(combination.begin(), combination.end()), combination.end());
    const std::int32_t position = combinations_.position_of(combination);
    of_texts_.emplace(text, position);
    return position;
  }

  // Reads a 0 or a 1 for each class.
  std::int32_t combination_of_columns(std::span<const CsvField> fields) {
    Combination combination;
    for (std::size_t k = 0; k < columns_.classes.size(); ++k) {
      const std::string_view value = content_of(fields[columns_.classes[k]]);
      if (value == "1" || value == "1.0") {
        combination.push_back(static_cast<std::int32_t>(k));
      } else if (value != "0" && value != "0.0") {
        reader_.fail(cat("the column '", table_.texts[k], "' has '", value,
                         "'; a column of a class has 0 or 1 in each line"));
      }
    }
    return combinations_.position_of(combination);
  }

  char delimiter_;
  LabelsPerImage labels_;
  CsvReader reader_;
  LabelTable table_;
  TableColumns columns_;
  bool has_header_ = false;
  std::int64_t first_line_ = 1;
  Positions positions_;  // of labels
  Positions of_texts_;   // of the combinations of fields with several labels
  Combinations combinations_{table_.combinations};
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

Combination united(const std::vector<Combination>& all, std::int32_t a, std::int32_t b) {
  const Combination &first = all[static_cast<std::size_t>(a)],
                    &second = all[static_cast<std::size_t>(b)];
  Combination both;
  std::ranges::set_union(first, second, std::back_inserter(both));
  return both;
}

// Returns the table in the given order. Each path is there once, with the labels of all its lines.
LabelTable arranged(const LabelTable& table, const std::vector<std::size_t>& order) {
  LabelTable result;
  result.name = table.name;
  result.texts = table.texts;
  result.combinations = table.combinations;
  result.layout = table.layout;
  Combinations combinations(result.combinations);
  result.text_of.reserve(order.size());
  result.lines.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k];
    if (k > 0 && table.paths[i] == table.paths[order[k - 1]]) {
      std::int32_t& there = result.text_of.back();
      if (there == table.text_of[i]) {
        ++result.repeated;
      } else {
        there = combinations.position_of(united(result.combinations, there, table.text_of[i]));
      }
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

LabelTable read_label_table(const ByteSource& file, LabelsPerImage labels) {
  const LabelTable table = TableParser(file, labels).parse();
  const std::vector<std::size_t> order = sorted_positions(table.paths);
  if (labels == LabelsPerImage::kOne) check_one_label(table, order);
  return arranged(table, order);
}

}  // namespace dtn
