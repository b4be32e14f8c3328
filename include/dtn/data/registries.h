// The registries from which a config chooses data sets and augmentation policies by name.
#pragma once

#include "dtn/data/augmentation.h"
#include "dtn/data/dataset_registry.h"

namespace dtn {

struct DataRegistries {
  DatasetRegistry datasets = dataset_registry();
  AugmentationRegistry augmentations = augmentation_registry();
};

// The registries of the library.
const DataRegistries& data_registries();

}  // namespace dtn
