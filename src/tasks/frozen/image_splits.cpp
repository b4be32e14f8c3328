#include "tasks/frozen/image_splits.h"

#include <utility>

#include "data/classes/match_classes.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// Opens a split for a model of any number of classes, or without labels.
std::shared_ptr<const Dataset> open_with_all_classes(const ExperimentConfig& config, Split split,
                                                     const Registries& registries) {
  ModelConfig any = config.model;
  if (!registries.datasets.at(config.data.dataset).schema.classes_of_model) any.num_classes = 0;
  return open_unlabelled(config.data, any, split, config.seed, registries.datasets);
}

}  // namespace

std::shared_ptr<const Dataset> open_training_images(const ExperimentConfig& config,
                                                    const Registries& registries) {
  return open_with_all_classes(config, Split::kTrain, registries);
}

std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Dataset& training,
                                                      const Registries& registries) {
  std::shared_ptr<const Dataset> images = open_validation_images(config, registries);
  if (!images->has_labels() || !training.has_labels()) return images;
  return with_labels_of(class_list_of(training), std::move(images));
}

std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Registries& registries) {
  return open_with_all_classes(config, Split::kVal, registries);
}

}  // namespace dtn
