// What samples are made by, as a config chooses it by name.
#pragma once

#include "dtn/data/augmentation.h"
#include "dtn/data/dataset_registry.h"

namespace dtn {

struct DataRegistries {
  DatasetRegistry datasets = dataset_registry();
  AugmentationRegistry augmentations = augmentation_registry();
};

// Ours.
const DataRegistries& data_registries();

}  // namespace dtn
