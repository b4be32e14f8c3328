#include "tasks/view_sources.h"

#include <algorithm>
#include <utility>

#include "data/feed/open_split.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "tasks/frozen/image_splits.h"

namespace dtn {
namespace {

// Returns true if the data set has the key data.val, without which it always has the split.
bool reads_validation(const ExperimentConfig& config, const Registries& registries) {
  const std::vector<std::string>& reads = registries.datasets.at(config.data.dataset).schema.reads;
  return std::ranges::find(reads, "val") != reads.end();
}

// Opens the training images with their labels. Throws DataError if they have none.
std::shared_ptr<const Dataset> open_labelled(const ExperimentConfig& config,
                                             const Registries& registries) {
  std::shared_ptr<const Dataset> images =
      open_for_views(config.data, config.model, Split::kTrain, config.seed, registries.datasets);
  if (!images->has_labels()) {
    throw DataError(cat(images->description(),
                        ": has no labels; evaluations look for the nearest training images of each "
                        "validation image and need the labels of these; ",
                        reads_validation(config, registries)
                            ? "unset data.val to train without evaluations"
                            : "train on a data set with labels"));
  }
  // Ready views are not the images that an evaluation needs.
  return images->ready_fields().empty() ? images : open_training_images(config, registries);
}

std::shared_ptr<const SampleSource> evaluation_samples(std::shared_ptr<const Dataset> images,
                                                       const ExperimentConfig& config,
                                                       Device device,
                                                       const Registries& registries) {
  return image_samples_of(std::move(images), config, Split::kVal, device, registries);
}

}  // namespace

std::shared_ptr<const SampleSource> open_validation(const ExperimentConfig& config, Device device,
                                                    const Registries& registries) {
  if (!config.data.val && reads_validation(config, registries)) return nullptr;
  const std::shared_ptr<const Dataset> training = open_labelled(config, registries);
  return evaluation_samples(open_validation_images(config, *training, registries), config, device,
                            registries);
}

std::shared_ptr<const SampleSource> open_references(const ExperimentConfig& config, Device device,
                                                    const Registries& registries) {
  return evaluation_samples(open_labelled(config, registries), config, device, registries);
}

}  // namespace dtn
