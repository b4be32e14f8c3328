// Names and presence of the parts of a data set.
#pragma once

#include <filesystem>
#include <string>

#include "dtn/config/data_config.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Returns the folder of the validation split below data.root: data.val, or else the first of "val",
// "validation" and "valid" that exists. Logs the name if it is not "val".
std::string val_folder_of(const DataConfig& data);

// Returns the folder of the training split of an image folder: data.train, or else "train", below
// data.root. With data.labels or data.split, data.root itself if data.train is not set and there is
// no "train".
std::filesystem::path train_folder_of(const DataConfig& data);

// Returns the folder of a split of an image folder. With data.split, both splits have that of the
// training split. Throws DataError if the folder does not exist, or if there is a validation split
// beside data.split.
std::filesystem::path folder_of(const DataConfig& data, Split split);

// False if there are no validation images to evaluate: data.val and data.split are not
// set, and an image folder has none of the usual folders, or `tensors` not the usual file.
bool has_validation_images(const DataConfig& data);

// False for an image folder without training images: train_folder_of() does not exist.
bool has_training_images(const DataConfig& data);

// Uses the folder "test" as the validation split, and logs this, if an image folder has no other
// and data.val and data.split are not set.
void take_test_split(DataConfig& data);

}  // namespace dtn
