// Names of the folders of an image folder's splits.
#pragma once

#include <string>

#include "dtn/config/data_config.h"

namespace dtn {

// Returns the folder of the validation split below data.root: data.val, or else the first of "val",
// "validation" and "valid" that exists. Logs the name if it is not "val".
std::string val_folder_of(const DataConfig& data);

// Uses the folder "test" as the validation split, and logs this, if an image folder has no other
// and data.val is not set.
void take_test_split(DataConfig& data);

}  // namespace dtn
