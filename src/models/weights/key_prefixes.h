// Translates the tensor names of a file to the parameter names of a model: removes the prefixes of
// wrappers, then applies the translation of the model family.
#pragma once

#include <string>
#include <vector>

#include "dtn/models/classifier.h"

namespace dtn {

// Returns the tensors under the model's names, as far as they can be translated, and adds notes for
// the user. If no name fits a parameter outside the head, tries the prefixes of common wrappers:
// module., _orig_mod., model., backbone., teacher., teacher.backbone., also nested. Keeps heads
// that do not have the prefix, and leaves out all other tensors without it. Throws DataError for
// two tensors of one name.
NamedTensors in_names_of(const Classifier& model, const NamedTensors& tensors,
                         const std::string& source, std::vector<std::string>& notes);

}  // namespace dtn
