// Translates the tensor names of a file to the parameter names of a model: removes the prefixes of
// wrappers, then applies the translation of the model family.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/models/classifier.h"

namespace dtn {

// Returns the name without the prefixes that wrap a whole network: module., _orig_mod., model.
std::string_view without_wrappers(std::string_view name);

// The networks of a file. A checkpoint of self-distillation, such as DINO, has student.* and
// teacher.*, which lose that prefix. Any other file has one network, which is both.
struct StudentAndTeacher {
  NamedTensors student, teacher;
  NamedTensors others;  // tensors beside student.* and teacher.*
  bool are_two = false;
};
StudentAndTeacher split_student_teacher(const NamedTensors& tensors);

// Throws DataError if two tensors of a network differ only in prefixes of wrappers or in backbone.,
// and their name without these is one of the model.
void check_unambiguous(const NamedTensors& tensors, const std::string& source,
                       const std::function<bool(const std::string& name)>& is_in_model);

// Returns the tensors under the model's names, as far as they can be translated, and adds notes for
// the user. If no name fits a parameter outside the head, tries the prefixes of common wrappers:
// module., _orig_mod., model., backbone., teacher., student., also nested; the teacher comes first.
// Keeps heads that do not have the prefix, and leaves out all other tensors without it. Throws
// DataError for two tensors of one name, see check_unambiguous().
NamedTensors in_names_of(const Classifier& model, const NamedTensors& tensors,
                         const std::string& source, std::vector<std::string>& notes);

}  // namespace dtn
