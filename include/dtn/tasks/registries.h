// All registries from which a config chooses by name. A user's program copies the standard
// registries and adds rows:
//
//   dtn::Registries mine;
//   mine.norms.add({.schema = {.type = "mynorm", .doc = "..."}, .make = make_my_norm});
//   return dtn::app::train_main(argc, argv, mine);
#pragma once

#include "dtn/config/schemas.h"
#include "dtn/data/registries.h"
#include "dtn/models/backbone.h"
#include "dtn/models/presets.h"
#include "dtn/nn/normalizer.h"
#include "dtn/optim/optimizer.h"
#include "dtn/optim/schedule.h"
#include "dtn/tasks/task.h"

namespace dtn {

struct Registries : DataRegistries {  // of data sets and augmentations
  NormRegistry norms = norm_registry();
  ModelRegistry models = model_registry();
  PresetRegistry presets = preset_registry();
  OptimizerRegistry optimizers = optimizer_registry();
  ScheduleRegistry schedules = schedule_registry();
  TaskRegistry tasks = task_registry();

  // The rows as plain structs for the config loader.
  ConfigSchemas schemas() const;
};

// The registries of the library.
const Registries& standard_registries();

}  // namespace dtn
