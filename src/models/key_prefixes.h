// Names of a file's tensors as those of a model's parameters: wrappers' prefixes go first, then the
// model family translates what is left.
#pragma once

#include <string>
#include <vector>

#include "dtn/models/classifier.h"

namespace dtn {

// Returns the tensors under the model's names, as far as they can be translated, and adds notes for
// people. Where no name fits a parameter outside the head, the prefixes of common wrappers are
// tried: module., _orig_mod., model., backbone., teacher.backbone., also nested. Of the tensors
// without the prefix, heads come along and all others are left out. Throws DataError for two
// tensors of one name.
NamedTensors in_names_of(const Classifier& model, const NamedTensors& tensors,
                         const std::string& source, std::vector<std::string>& notes);

}  // namespace dtn
