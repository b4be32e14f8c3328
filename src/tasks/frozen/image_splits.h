// The splits of a data set for features. They may have any number of classes, or no labels. A class
// has the same label in both splits.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Opens the training images of the config's data set with all their classes, if they have labels.
// Throws DataError.
std::shared_ptr<const Dataset> open_training_images(const ExperimentConfig& config,
                                                    const Registries& registries);

// Opens the validation images with the labels of the training images; classes are matched as in
// match_classes.h. If one of the splits has no labels, the labels are left as they are. Throws
// DataError if the classes cannot be matched.
std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Dataset& training,
                                                      const Registries& registries);
// The same with their own labels.
std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Registries& registries);

}  // namespace dtn
