#include "tasks/frozen/image_splits.h"

#include "data/classes/match_classes.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// Opens a split for a model of any number of classes.
std::shared_ptr<const Dataset> open_with_all_classes(const ExperimentConfig& config, Split split,
                                                     const Registries& registries) {
  ModelConfig any = config.model;
  if (!registries.datasets.at(config.data.dataset).schema.classes_of_model) any.num_classes = 0;
  return open_dataset(config.data, any, split, config.seed, registries.datasets);
}

}  // namespace

std::shared_ptr<const Dataset> open_training_images(const ExperimentConfig& config,
                                                    const Registries& registries) {
  return open_with_all_classes(config, Split::kTrain, registries);
}

std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Dataset& training,
                                                      const Registries& registries) {
  return open_for_classes(config.data, config.model, Split::kVal, config.seed, registries.datasets,
                          class_list_of(training));
}

std::shared_ptr<const Dataset> open_validation_images(const ExperimentConfig& config,
                                                      const Registries& registries) {
  return open_with_all_classes(config, Split::kVal, registries);
}

}  // namespace dtn
