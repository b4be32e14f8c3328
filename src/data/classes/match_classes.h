// Which class of a model each class of a data set is. Evaluations, suites, kept heads, teachers and
// resumed runs all ask match_classes(): no other place decides it.
#pragma once

#include <memory>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/class_list.h"
#include "dtn/data/dataset.h"
#include "dtn/data/dataset_registry.h"

namespace dtn {

struct ClassMatch {
  std::vector<std::int64_t> labels{};  // for each class of the data, its label in the model
  std::vector<std::string> names{};    // of the model's classes, where they became known
  std::string note{};                  // for people; empty: nothing to say

  // True if each class of the data has the same label in the model.
  bool is_identity() const;
};

// Names as a list of classes, of which there are as many.
ClassList named_classes(const std::string& owner, std::vector<std::string> names);

// Matches the classes of data with those of a model.
//  - Both have names: by name, in any order and number. Plain numbers, such as ImageNet-V2's folders
//    0 to 999, are the labels of a model whose classes are WordNet ids of ImageNet.
//  - Data named by WordNet ids of ImageNet, a model of 1000 classes without names: by ImageNet's
//    labels.
//  - Else by position, with a note where one side has names. Named data must then have as many
//    classes as the model, and data without names, which is labelled by numbers, not more.
// Throws DataError that names the class that is missing, and ends in `advice`.
ClassMatch match_classes(const ClassList& data, const ClassList& model, const std::string& advice);

// For each of the model's `outputs`, the row of a head that it takes. Outputs without a named class
// take the rows that are left. Throws what match_classes() does, and where too few rows are left.
std::vector<std::int64_t> head_rows(const ClassList& data, std::int64_t outputs,
                                    const ClassList& head, const std::string& advice,
                                    std::string& note);

// The classes of a data set.
ClassList class_list_of(const Dataset& dataset);

// The same samples with the labels and class names of a match.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> dataset,
                                          const ClassMatch& match, const ClassList& model);

// Opens a split for a model of known classes: its labels are the model's, see match_classes().
// Logs the note.
std::shared_ptr<const Dataset> open_for_classes(const DataConfig& data, const ModelConfig& model,
                                                Split split, std::uint64_t seed,
                                                const DatasetRegistry& datasets,
                                                const ClassList& classes);

// The number of classes that the training split has: of an image folder its class folders, without a
// list of its files. 0 where the model's config decides it (DatasetSchema::classes_of_model).
std::int64_t count_classes(const DataConfig& data, const ModelConfig& model, std::uint64_t seed,
                           const DatasetRegistry& datasets);

// Opens a training split, whose classes a model is to learn: by ImageNet's labels where the model
// has 1000 outputs and the classes are some of ImageNet's WordNet ids, else as open_dataset() does.
std::shared_ptr<const Dataset> open_to_learn(const DataConfig& data, const ModelConfig& model,
                                             std::uint64_t seed, const DatasetRegistry& datasets);

}  // namespace dtn
