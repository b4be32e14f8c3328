// Columns of a table of files and their labels.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "data/table/csv.h"
#include "data/table/label_table.h"

namespace dtn {

// Returns the text of a field. Blanks around a field without quotes do not count.
std::string_view content_of(const CsvField& field);

// Positions of the columns.
struct TableColumns {
  std::size_t path = 0, label = 1, count = 2;
  std::vector<std::size_t> classes{};  // of one class each; if there are some, `label` is not used
};

// Returns the columns that the record of `reader`, a header, names. Throws DataError for an unknown
// name, and if the paths or the labels are missing or there twice.
TableColumns columns_of_header(const CsvReader& reader, LabelsPerImage labels);

}  // namespace dtn
