// Names of the folders of an image folder's splits.
#pragma once

#include <string>

#include "dtn/config/data_config.h"

namespace dtn {

// The folder of the validation split below data.root: data.val, or else "val", "validation" or
// "valid", the first that is there. Says so where it is not "val".
std::string val_folder_of(const DataConfig& data);

// Takes the folder "test" for the validation split where an image folder has no other and data.val
// is not set, and says so.
void take_test_split(DataConfig& data);

}  // namespace dtn
