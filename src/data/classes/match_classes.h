// Matches the classes of a data set with those of a model. Evaluations, suites, kept heads,
// teachers and resumed runs all call match_classes(): no other code decides this.
#pragma once

#include <memory>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/dataset_registry.h"

namespace dtn {

struct ClassMatch {
  std::vector<std::int64_t> labels{};  // label in the model of each class of the data
  std::vector<std::string> names{};    // names of the model's classes, if known
  std::string note{};                  // message for the user; may be empty

  // True if each class of the data has the same label in the model.
  bool is_identity() const;
};

// Returns a list of classes with these names.
ClassList named_classes(const std::string& owner, std::vector<std::string> names);

// Matches the classes of data with those of a model.
//  - Both have names: by name, in any order and number. Plain numbers, such as ImageNet-V2's
//    folders 0 to 999, are taken as labels if the model's classes are WordNet ids of ImageNet.
//  - The data is named by WordNet ids of ImageNet, and the model has 1000 classes without names: by
//    ImageNet's labels.
//  - Otherwise by position, with a note if one side has names. Named data must then have as many
//    classes as the model. Data without names is labelled by numbers and must not have more.
// Throws DataError that names the missing class and ends with `advice`.
ClassMatch match_classes(const ClassList& data, const ClassList& model, const std::string& advice);

// Returns the row of a head for each of the model's `outputs`. Outputs without a named class take
// the remaining rows. Throws as match_classes() does, and DataError if too few rows remain.
std::vector<std::int64_t> head_rows(const ClassList& data, std::int64_t outputs,
                                    const ClassList& head, const std::string& advice,
                                    std::string& note);

// Returns the classes of a data set.
ClassList class_list_of(const Dataset& dataset);

// Returns the same samples with the labels and class names of a match.
std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> dataset,
                                          const ClassMatch& match, const ClassList& model);

// Returns the same samples with the labels of a model of known classes; see match_classes(). Logs
// the note.
std::shared_ptr<const Dataset> with_labels_of(const ClassList& classes,
                                              std::shared_ptr<const Dataset> dataset);

// Opens a split with the labels of a model of known classes, by with_labels_of().
std::shared_ptr<const Dataset> open_for_classes(const DataConfig& data, const ModelConfig& model,
                                                Split split, std::uint64_t seed,
                                                const DatasetRegistry& datasets,
                                                const ClassList& classes);

// Returns the number of classes of the training split. For an image folder it counts the class
// folders, or the labels of data.labels, and does not list the files. Returns 0 if the model's
// config decides the number (DatasetSchema::classes_of_model).
std::int64_t count_classes(const DataConfig& data, const ModelConfig& model, std::uint64_t seed,
                           const DatasetRegistry& datasets);

// Opens a training split for learning. Uses ImageNet's labels if the model has 1000 outputs and all
// classes are WordNet ids of ImageNet. Otherwise the same as open_dataset().
std::shared_ptr<const Dataset> open_to_learn(const DataConfig& data, const ModelConfig& model,
                                             std::uint64_t seed, const DatasetRegistry& datasets);

}  // namespace dtn
