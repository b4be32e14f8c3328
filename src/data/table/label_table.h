// Tables of files and their labels (data.labels). The labels are texts here: what they mean is the
// business of the data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/source/label_matrix.h"
#include "data/source/name_list.h"
#include "io/file.h"

namespace dtn {

struct LabelTable {
  std::string name;  // of the file
  NameList paths;    // each once, without "./" and "//", in the order comes_before()
  // For each path: its label, a position in `texts`, or with kAny a position in `combinations`.
  std::vector<std::int32_t> text_of;
  std::vector<std::int64_t> lines;  // for each path: its line in the file
  std::vector<std::string> texts;   // the different labels, in the order of the file
  // With kAny: the different sets of labels, each ascending positions in `texts`.
  std::vector<std::vector<std::int32_t>> combinations;
  std::int64_t repeated = 0;  // lines left out, because an earlier line says the same
  std::string layout;         // for messages: "header path,label", "no header"

  // Throws DataError: "<file>:<line>: <what>".
  [[noreturn]] void fail_at(std::int64_t line, const std::string& what) const;
};

// Reads a table with a column of paths and a column of labels. The first line is a header, unless
// one of its fields ends like the name of an image. A header gives the columns in any order, by one
// of several usual names; without one, the path is first. Blanks around a field without quotes do
// not count.
//
// With kAny, the column of labels may have several, with semicolons between them, or none; the
// labels of a path are those of all its lines. Instead of that column there may be one for each
// class, named by the header, with a 0 or a 1.
//
// Throws DataError that begins with "<file>:<line>: " for a column that is unknown or missing, a
// line with another number of fields, an empty path or label, a path with two different labels
// (both with kOne), a class column with another value, and what CsvReader rejects; and DataError
// for a table without lines.
LabelTable read_label_table(const ByteSource& file, LabelsPerImage labels = LabelsPerImage::kOne);

}  // namespace dtn
