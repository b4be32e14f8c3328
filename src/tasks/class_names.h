// Names of a model's classes. Training writes them into the metadata of its checkpoints, as a JSON
// list of texts in the order of the labels.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

inline constexpr const char* kClassNamesKey = "classes";

std::string as_json(const std::vector<std::string>& names);

// The names in a file's metadata, as the training data has them; none where the file has no list
// or one of more than `num_classes`. Throws DataError for metadata that is no list of texts.
std::vector<std::string> stored_class_names(const StringMap& metadata, std::int64_t num_classes);

// The same names for people: WordNet ids, by which ImageNet's folders are called, become English
// words. ImageNet's words where a file of a model of 1000 classes has no list.
std::vector<std::string> class_words(const StringMap& metadata, std::int64_t num_classes);

}  // namespace dtn
