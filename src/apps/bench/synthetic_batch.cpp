#include "apps/bench/random_values.h"
#include "data/feed/open_split.h"
#include "dtn/tasks/registries.h"

namespace dtn {

Fields synthetic_batch(const ExperimentConfig& config, std::int64_t n, Device device,
                       const Registries& registries, Task& task) {
  ExperimentConfig synthetic = config;
  synthetic.data = DataConfig();
  synthetic.data.dataset = "synthetic";
  synthetic.data.size = n;
  synthetic.data.workers = 0;
  synthetic.data.scale_long = config.data.scale_long;
  synthetic.data.scale_short = config.data.scale_short;
  synthetic.data.size_divisor = config.data.size_divisor;
  const auto source = make_task({synthetic, kMeta, registries})->source(Split::kTrain, device);
  task.learn_classes(*source);
  const auto split =
      open_split(source, synthetic, Split::kTrain, {.device = device, .batch_size = n});
  split->feeder().start(0);
  DeviceBatch batch;
  DTN_CHECK(split->feeder().next(batch), "there are no synthetic samples");
  Fields fields;
  for (const auto& [name, tensor] : batch.fields) fields[name] = tensor.clone();
  return fields;
}

Fields training_batch(const ExperimentConfig& config, std::int64_t n, Device device,
                      const Registries& registries, Task& task) {
  if (config.task == "classify") return random_batch(config.model, n, device);
  return synthetic_batch(config, n, device, registries, task);
}

}  // namespace dtn
