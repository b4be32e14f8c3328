// The number of classes of a config that leaves it out.
#pragma once

#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// Takes model.num_classes from the training data, if the task is to tell classes apart and the data
// is there. Says so where it differs from the default.
void take_num_classes(ExperimentConfig& config, const Registries& registries);

}  // namespace dtn::app
