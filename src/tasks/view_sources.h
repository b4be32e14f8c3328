// Samples of the tasks that pre-train features without a classifier.
#pragma once

#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Returns the validation images, with the labels that the training images have for their classes;
// null: data.val is not set, although the data set reads it. Throws DataError if the classes cannot
// be matched, or if the training images have no labels.
std::shared_ptr<const SampleSource> open_validation(const ExperimentConfig& config, Device device,
                                                    const Registries& registries);

// Returns the training images, prepared as for an evaluation, with their labels. Throws DataError
// if they have no labels.
std::shared_ptr<const SampleSource> open_references(const ExperimentConfig& config, Device device,
                                                    const Registries& registries);

}  // namespace dtn
