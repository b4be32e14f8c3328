// Images whose labels are in a table (data.labels) instead of the names of folders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Opens the images that the table data.labels of a split lists; see split_folders.h for the folder.
// Other images in the folder are not used. Classes are the labels of the table in data.class_order,
// by default the byte order of their names; those of the training split decide for both splits, if
// it has a table. Samples are sorted by class, folder and file name, so a table gives the order of
// class folders.
//
// Throws DataError that names the table and the line, for what read_label_table() rejects, for
// images that do not exist and for a label that the training split lacks.
std::unique_ptr<Dataset> open_listed_images(const DataConfig& data, const ModelConfig& model,
                                            Split split);

// Returns the classes of the training split's table, in byte order.
std::vector<std::string> listed_classes(const DataConfig& data);

}  // namespace dtn
