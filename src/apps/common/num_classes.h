// Number of classes for a config that does not set it.
#pragma once

#include "dtn/config/train_config.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// Takes model.num_classes from the training data, if the task is a classification and the data
// exists. Logs the number if it differs from the default.
void take_num_classes(ExperimentConfig& config, const Registries& registries);

}  // namespace dtn::app
