// Names of a model's classes. Training writes them into the metadata of its checkpoints, as a JSON
// list of strings in label order.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

inline constexpr const char* kClassNamesKey = "classes";

std::string as_json(const std::vector<std::string>& names);

// Replaces WordNet ids, the folder names of ImageNet, by English words.
void put_into_words(std::vector<std::string>& names);

// Returns the names in a file's metadata, as in the training data. Empty if the file has no list,
// or one with more than `num_classes` names. Throws DataError if it is not a list of strings.
std::vector<std::string> stored_class_names(const StringMap& metadata, std::int64_t num_classes);

// Throws ConfigError, which names `named` and the first difference, if both lists are known and
// differ: the outputs of the two models then mean other classes.
void check_same_classes(const std::vector<std::string>& first,
                        const std::vector<std::string>& other, const std::string& named);

// Returns the same names for people, see put_into_words(). If a file of a model with 1000 classes
// has no list, returns ImageNet's words.
std::vector<std::string> class_words(const StringMap& metadata, std::int64_t num_classes);

}  // namespace dtn
