#include "tasks/view_sources.h"

#include <algorithm>

#include "data/feed/open_split.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

// Opens images with labels in any number of classes.
std::shared_ptr<const SampleSource> open_labelled(const ExperimentConfig& config, Split split,
                                                  Device device, const Registries& registries) {
  ExperimentConfig any = config;
  if (!registries.datasets.at(config.data.dataset).schema.classes_of_model) {
    any.model.num_classes = 0;
  }
  return image_samples_of(open_dataset(any.data, any.model, split, any.seed, registries.datasets),
                          any, Split::kVal, device, registries);
}

// Returns true if the config leaves out the validation split. A data set without the key data.val
// always has one.
bool lacks_validation(const ExperimentConfig& config, const Registries& registries) {
  const std::vector<std::string>& reads = registries.datasets.at(config.data.dataset).schema.reads;
  return !config.data.val && std::ranges::find(reads, "val") != reads.end();
}

}  // namespace

std::shared_ptr<const SampleSource> open_validation(const ExperimentConfig& config, Device device,
                                                    const Registries& registries) {
  if (lacks_validation(config, registries)) return nullptr;
  return open_labelled(config, Split::kVal, device, registries);
}

std::shared_ptr<const SampleSource> open_references(const ExperimentConfig& config, Device device,
                                                    const Registries& registries) {
  try {
    return open_labelled(config, Split::kTrain, device, registries);
  } catch (const DataError& e) {
    throw DataError(
        cat("evaluations look for the nearest training images of "
            "each validation image, which need labels: ",
            e.what(), "; unset data.val to train without evaluations"));
  }
}

}  // namespace dtn
