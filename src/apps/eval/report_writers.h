// Writers of the files of a report: JSON with a member on each line, and tables.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/table/csv.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"

namespace dtn::app {

// Returns JSON on one line; bytes that are not UTF-8 are replaced.
inline std::string compact_json(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Returns the place of a sample for a table.
inline std::string place_text(const nlohmann::ordered_json& place) {
  return place.is_string() ? place.get<std::string>() : place.dump();
}

// A JSON object, written member by member, one to a line.
class ObjectWriter {
 public:
  explicit ObjectWriter(const std::filesystem::path& path) : file_(path) { file_.write("{"); }

  void add(const std::string& key, const nlohmann::ordered_json& value) {
    begin(key);
    file_.write(compact_json(value));
  }
  // Adds an array with one line for each of `count` elements.
  template <class Element>
  void add_lines(const std::string& key, std::size_t count, const Element& element) {
    begin(key);
    file_.write("[");
    for (std::size_t i = 0; i < count; ++i) {
      file_.write(i == 0 ? "\n" : ",\n");
      file_.write(compact_json(element(i)));
    }
    file_.write("]");
  }
  void finish() {
    file_.write("\n}\n");
    file_.commit();
  }

 private:
  void begin(const std::string& key) {
    file_.write(cat(first_ ? "\n" : ",\n", compact_json(key), ": "));
    first_ = false;
  }

  AtomicFile file_;
  bool first_ = true;
};

// A table as CSV, written row by row.
class CsvWriter {
 public:
  CsvWriter(const std::filesystem::path& path, std::string_view columns) : file_(path) {
    file_.write(cat(columns, "\n"));
  }

  template <class... Fields>
  void add(const Fields&... fields) {
    std::string row;
    ((row += cat(row.empty() ? "" : ",", text(fields))), ...);
    file_.write(row + "\n");
  }
  void finish() { file_.commit(); }

  static std::string text(const std::string& value) { return csv_field(value); }
  // The shortest text that reads back as the same number.
  static std::string text(double value) {
    std::array<char, 32> buffer{};
    return {buffer.data(), std::to_chars(buffer.begin(), buffer.end(), value).ptr};
  }
  static std::string text(std::integral auto value) { return std::to_string(value); }

 private:
  AtomicFile file_;
};

}  // namespace dtn::app
