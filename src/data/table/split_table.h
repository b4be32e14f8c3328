// The table of a split (data.labels), with the classes of its labels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/table/label_table.h"
#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

struct SplitTable {
  LabelTable table;
  std::string folder;                  // where its paths begin
  std::vector<std::string> classes;    // in label order
  std::vector<std::int64_t> label_of;  // for each text of the table: its class
};

// Reads the table of a split; see split_folders.h for its folder. Classes are the labels of the
// table in data.class_order, by default the byte order of their names; those of the training split
// decide for both splits, if it has a table.
//
// Throws DataError that names the table and the line, for what read_label_table() rejects, for
// images that do not exist and for a label that the training split lacks.
SplitTable read_split_table(const DataConfig& data, const ModelConfig& model, Split split,
                            LabelsPerImage labels);

// Returns the classes of the training split's table, in byte order.
std::vector<std::string> listed_classes(const DataConfig& data, LabelsPerImage labels);

// Makes the path of a file in `folder`. An absolute name stays as it is.
void join_path(const std::string& folder, std::string_view name, std::string& path);

}  // namespace dtn
