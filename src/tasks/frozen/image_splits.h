// The splits of a data set for features, which any number of classes may have: a class has the same
// label in both splits.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/dataset.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Opens the training images of the config's data set with all their classes. Throws DataError.
std::shared_ptr<const Dataset> open_training_images(const ExperimentConfig& config,
                                                    const Registries& registries);

// Opens the validation images with the labels of the training images; classes are matched as in
// match_classes.h. Throws DataError if they cannot be matched.
std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Dataset& training,
                                                      const Registries& registries);
// The same with their own labels.
std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Registries& registries);

}  // namespace dtn
