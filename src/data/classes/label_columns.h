// Data sets whose samples have any number of classes, with the classes of a model.
#pragma once

#include <memory>

#include "data/classes/match_classes.h"
#include "dtn/data/dataset.h"

namespace dtn {

// Opens a split with the field "labels" for the classes of `classes`, matched as match_classes()
// does. No sample has the classes that the data set lacks; logs their names.
std::shared_ptr<const Dataset> open_multilabel_for(const DataConfig& data, const ModelConfig& model,
                                                   Split split, std::uint64_t seed,
                                                   const DatasetRegistry& datasets,
                                                   const ClassList& classes);

// Returns the data set with its "labels" as columns of `classes`.
std::unique_ptr<Dataset> with_label_columns(std::shared_ptr<const Dataset> dataset,
                                            const ClassMatch& match, const ClassList& classes);

// Returns the number of classes of the training split. For images it reads only the table of their
// labels.
std::int64_t count_multilabel_classes(const DataConfig& data, const ModelConfig& model,
                                      std::uint64_t seed, const DatasetRegistry& datasets);

}  // namespace dtn
