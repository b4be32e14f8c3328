// Names and presence of the parts of a data set.
#pragma once

#include <string>

#include "dtn/config/data_config.h"

namespace dtn {

// Returns the folder of the validation split below data.root: data.val, or else the first of "val",
// "validation" and "valid" that exists. Logs the name if it is not "val".
std::string val_folder_of(const DataConfig& data);

// False if there are no validation images to evaluate: data.val is not set, and an image folder has
// none of the usual folders, or `tensors` not the usual file.
bool has_validation_images(const DataConfig& data);

// Uses the folder "test" as the validation split, and logs this, if an image folder has no other
// and data.val is not set.
void take_test_split(DataConfig& data);

}  // namespace dtn
