#include "bench/run_size.h"

#include <algorithm>

#include "data/feed/epoch_plan.h"
#include "data/feed/loader_options.h"
#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"
#include "dtn/optim/schedule.h"

namespace dtn {
namespace {

// The most that a loader holds (loader.h), and the one that it has handed out.
double batches_held(std::int64_t workers, std::int64_t batch_size) {
  return static_cast<double>(
      workers > 0 ? std::max<std::int64_t>(3, 2 * workers / batch_size + 1) + 1 : 2);
}

void add_batches(const ExperimentConfig& config, std::int64_t batch_size, Device device,
                 RunMemory& memory) {
  const ModelConfig& m = config.model;
  const double pixels = static_cast<double>(batch_size) * m.channels * m.image_size * m.image_size;
  const double held = batches_held(workers_of(config.data, device), batch_size);
  if (device == kCpu) {
    memory.batches += held * 4 * pixels;
    return;
  }
  // The feeder's ring of three in bytes on either side, and the one in float32 that a step reads.
  memory.batches += (3 + 4) * pixels;
  memory.host_batches += (held + 2) * pixels;
}

}  // namespace

std::int64_t micro_batch(const TrainConfig& train) {
  return train.micro_batch.value_or(train.batch_size);
}

RunSize size_of_run(const ExperimentConfig& config, const DataRegistries& registries) {
  const ModelConfig& m = config.model;
  [[maybe_unused]] const Transform or_what_is_wrong(config.data, config.augment, m.image_size,
                                                    m.channels, true, {}, registries);
  auto train = open_dataset(config.data, m, Split::kTrain, config.seed, registries.datasets);
  auto val = open_dataset(config.data, m, Split::kVal, config.seed, registries.datasets);
  RunSize size;
  size.train = train->description();
  size.val = val->description();
  size.val_images = val->size();
  size.steps_per_epoch = epoch_length(train->size(), config.data.repeats, config.augment.repeats) /
                         config.train.batch_size;
  if (size.steps_per_epoch == 0) {
    throw DataError(cat(size.train, ": not one batch of ", config.train.batch_size,
                        "; lower train.batch_size"));
  }
  LearningRate rate(config.optim, config.schedule, config.train.batch_size, size.steps_per_epoch);
  size.steps = rate.total_steps();
  size.peak_rate = rate.peak();
  return size;
}

std::int64_t evaluations_of(const TrainConfig& train, const RunSize& size) {
  const std::int64_t period =
      train.eval_every.count * (train.eval_every.epochs ? size.steps_per_epoch : 1);
  return (period > 0 ? (size.steps + period - 1) / period : 1) * (train.ema ? 2 : 1);
}

namespace {

// How many an optimizer keeps of the size of the weights.
double state_buffers(const OptimConfig& config, const OptimizerRegistry& optimizers) {
  ParameterStore nothing;
  nothing.allocate();
  return static_cast<double>(make_optimizer(config, nothing, optimizers)->state().size());
}

}  // namespace

RunMemory memory_of_run(const ExperimentConfig& config, std::int64_t parameters,
                        const StepGlance& step, Device device, const Registries& registries) {
  const TrainConfig& train = config.train;
  const double copy = 4 * static_cast<double>(parameters);
  RunMemory memory;
  memory.weights = train.precision == Precision::kBFloat16 ? 1.5 * copy : copy;
  memory.gradients = copy;
  memory.moments = copy * state_buffers(config.optim, registries.optimizers);
  memory.average = train.ema ? copy : 0;
  memory.activations = step.bytes + step.bytes_per_image * static_cast<double>(micro_batch(train));
  add_batches(config, train.batch_size, device, memory);
  add_batches(config, micro_batch(train), device, memory);  // of the validation images
  return memory;
}

RunTime time_of_run(const ExperimentConfig& config, const RunSize& size, double step_seconds,
                    double load_seconds, Device device) {
  const double threads = max_threads();
  const double workers = std::min<double>(workers_of(config.data, device), threads);
  const auto with_loading = [&](double computing) {
    if (workers == 0) return computing + load_seconds;
    if (device != kCpu) return std::max(computing, load_seconds);
    // The cores do both; and no image is there before it is loaded.
    return std::max(computing + load_seconds * workers / threads, load_seconds);
  };
  RunTime time;
  time.per_image = with_loading(step_seconds);
  time.training = time.per_image * static_cast<double>(size.steps) * config.train.batch_size;
  time.evaluation = with_loading(step_seconds / 3) *
                    static_cast<double>(evaluations_of(config.train, size) * size.val_images);
  return time;
}

}  // namespace dtn
