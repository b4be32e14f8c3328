// All there is to choose from by name in a config. A program of one's own starts from ours and adds
// to them:
//
//   dtn::Registries mine;
//   mine.norms.add({.schema = {.type = "mynorm", .doc = "..."}, .make = make_my_norm});
//   return dtn::app::train_main(argc, argv, mine);
#pragma once

#include "dtn/config/schemas.h"
#include "dtn/data/registries.h"
#include "dtn/models/backbone.h"
#include "dtn/nn/normalizer.h"
#include "dtn/optim/optimizer.h"
#include "dtn/tasks/task.h"

namespace dtn {

struct Registries : DataRegistries {  // of data sets and augmentations
  NormRegistry norms = norm_registry();
  ModelRegistry models = model_registry();
  OptimizerRegistry optimizers = optimizer_registry();
  TaskRegistry tasks = task_registry();

  // As the config loader sees them.
  ConfigSchemas schemas() const;
};

// Ours.
const Registries& standard_registries();

}  // namespace dtn
