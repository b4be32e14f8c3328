// Tables of labels: any result other than a table of different, sorted paths with known labels, or
// a DataError, is a bug. Writing the table and reading it again does not change it. Fields that
// csv_field() writes are read back. Tables with any number of labels mean the same with one label
// in each line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/image_names.h"
#include "data/table/csv.h"
#include "data/table/label_table.h"
#include "dtn/core/check.h"

namespace {

using Records = std::vector<std::vector<std::string>>;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Records records(std::string_view text, char delimiter) {
  const dtn::MemorySource file(bytes(text), "fuzz");
  dtn::CsvReader reader(file, delimiter);
  Records all;
  std::int64_t line = 0;
  while (reader.next()) {
    if (reader.line() <= line || reader.fields().empty()) std::abort();
    line = reader.line();
    for (auto& record = all.emplace_back(); const dtn::CsvField& field : reader.fields()) {
      record.emplace_back(field.text);
    }
  }
  return all;
}

void check_records(std::string_view text, char delimiter) {
  Records found = records(text, delimiter);
  found.insert(found.begin(), {"first"});  // then no later text can be a byte order mark
  std::string written;
  for (const auto& record : found) {
    for (std::size_t i = 0; i < record.size(); ++i) {
      if (i > 0) written += delimiter;
      // A line of one empty field would be an empty line.
      written += record.size() == 1 && record[i].empty() ? "\"\"" : dtn::csv_field(record[i]);
    }
    written += '\n';
  }
  if (records(written, delimiter) != found) std::abort();
}

dtn::LabelTable table_of(std::string_view text, const char* name) {
  return dtn::read_label_table(dtn::MemorySource(bytes(text), name));
}

std::string_view label(const dtn::LabelTable& table, std::size_t i) {
  return table.texts.at(static_cast<std::size_t>(table.text_of[i]));
}

void check_table(std::string_view text, const char* name) {
  const dtn::LabelTable table = table_of(text, name);
  std::string written = "path,label\n";
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    if (i > 0 && table.paths[i - 1] == table.paths[i]) std::abort();
    if (i > 0 && dtn::comes_before(table.paths[i], table.paths[i - 1])) std::abort();
    if (table.paths[i].empty() || label(table, i).empty() || table.lines[i] < 1) std::abort();
    written += dtn::csv_field(table.paths[i]) + "," + dtn::csv_field(label(table, i)) + "\n";
  }
  const dtn::LabelTable again = table_of(written, "fuzz.csv");
  if (again.paths.size() != table.paths.size() || again.repeated != 0) std::abort();
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    if (again.paths[i] != table.paths[i] || label(again, i) != label(table, i)) std::abort();
  }
}

// The labels of each image, in the order of the table's texts.
std::vector<std::vector<std::string>> sets_of(const dtn::LabelTable& table) {
  std::vector<std::vector<std::string>> sets;
  for (const std::int32_t of : table.text_of) {
    std::int32_t before = -1;
    auto& set = sets.emplace_back();
    for (const std::int32_t text : table.combinations.at(static_cast<std::size_t>(of))) {
      if (text <= before) std::abort();
      before = text;
      set.push_back(table.texts.at(static_cast<std::size_t>(text)));
    }
  }
  return sets;
}

// A table with any number of labels, written with a label in each line, means the same.
void check_sets(std::string_view text, const char* name) {
  const auto read = [](std::string_view from, const char* as) {
    return dtn::read_label_table(dtn::MemorySource(bytes(from), as), dtn::LabelsPerImage::kAny);
  };
  const dtn::LabelTable table = read(text, name);
  const auto sets = sets_of(table);
  std::string written = "path,label\n";
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    if (i > 0 && table.paths[i - 1] == table.paths[i]) std::abort();
    const std::string path = dtn::csv_field(table.paths[i]);
    if (sets[i].empty()) written += path + ",\n";
    for (const std::string& label : sets[i]) {
      // A label from a column may contain the separator of labels in a field.
      if (label.find(';') != label.npos || label != dtn::csv_field(label)) return;
      written += path + "," + label + "\n";
    }
  }
  const dtn::LabelTable again = read(written, "fuzz.csv");
  if (again.paths.size() != table.paths.size()) std::abort();
  const auto found = sets_of(again);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (std::multiset<std::string>(found[i].begin(), found[i].end()) !=
        std::multiset<std::string>(sets[i].begin(), sets[i].end())) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char delimiter : {',', '\t', ';'}) {
    try {
      check_records(text, delimiter);
    } catch (const dtn::DataError&) {
    }
  }
  for (const char* name : {"fuzz.csv", "fuzz.tsv", "fuzz"}) {
    try {
      check_table(text, name);
    } catch (const dtn::DataError&) {
    }
    try {
      check_sets(text, name);
    } catch (const dtn::DataError&) {
    }
  }
  return 0;
}
