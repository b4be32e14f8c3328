// What the classes of a model are called. Training writes their names into the metadata of its
// checkpoints, as a list in JSON.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

inline constexpr const char* kClassNamesKey = "classes";

std::string as_json(const std::vector<std::string>& names);

// The names in a file's metadata, none where they are more than `num_classes`; where a file has no
// list, ImageNet's for a model of its 1000 classes, else none. WordNet ids, by which the folders of
// ImageNet are called, become English words. Throws DataError for what is no list of texts.
std::vector<std::string> class_names_of(const StringMap& metadata, int num_classes);

}  // namespace dtn
