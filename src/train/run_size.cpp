#include "dtn/train/run_size.h"

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/optim/schedule.h"

namespace dtn {

RunSize size_of_run(const ExperimentConfig& config) {
  auto train = open_dataset(config.data, config.model, Split::kTrain, config.seed);
  auto val = open_dataset(config.data, config.model, Split::kVal, config.seed);
  RunSize size;
  size.train = train->description();
  size.val = val->description();
  size.val_images = val->size();
  size.steps_per_epoch = train->size() * config.data.repeats / config.train.batch_size;
  if (size.steps_per_epoch == 0) {
    throw DataError(cat(size.train, ": not one batch of ", config.train.batch_size,
                        "; lower train.batch_size"));
  }
  LearningRate rate(config.optim, config.schedule, config.train.batch_size, size.steps_per_epoch);
  size.steps = rate.total_steps();
  size.peak_rate = rate.peak();
  return size;
}

}  // namespace dtn
