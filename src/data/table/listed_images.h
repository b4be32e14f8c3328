// Images whose labels are in a table (data.labels) instead of the names of folders.
#pragma once

#include <memory>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Opens the images that the table data.labels of a split lists, with one label each. Other images
// in the folder are not used. Samples are sorted by class, folder and file name, so a table gives
// the order of class folders. Throws DataError as read_split_table() does.
std::unique_ptr<Dataset> open_listed_images(const DataConfig& data, const ModelConfig& model,
                                            Split split);

}  // namespace dtn
