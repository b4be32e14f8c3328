// The arrangement of the images of a folder, for dtn-train DIR.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"

namespace dtn::app {

struct FolderLayout {
  std::string task = "classify";     // or "multilabel"
  DataConfig data;                   // dataset, root, train, val, labels, split
  std::vector<std::string> notes{};  // what was found, a sentence each
};

// Finds, in this order: a table of labels (.csv or .tsv) in DIR/train or DIR, whose first image
// exists; class folders in DIR/train or DIR; tar shards in DIR. Without a validation split of one
// of the usual names, holds out a fifth. A table in which an image has several labels, or none, is
// for the task multilabel.
//
// Throws DataError, which says how images may be arranged, if there is none of these, and if there
// are several tables of which none is called labels.csv.
FolderLayout find_layout(const std::filesystem::path& folder);

}  // namespace dtn::app
