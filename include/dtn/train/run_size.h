// How long a run is, before it starts.
#pragma once

#include <cstdint>
#include <string>

#include "dtn/config/train_config.h"

namespace dtn {

struct RunSize {
  std::string train, val;  // one line each about the data sets
  std::int64_t val_images = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;
  double peak_rate = 0;  // largest learning rate
};

// Opens the data sets to see. Throws DataError when they cannot be, or hold not one batch.
RunSize size_of_run(const ExperimentConfig& config);

}  // namespace dtn
