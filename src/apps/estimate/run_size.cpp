#include "apps/estimate/run_size.h"

#include <algorithm>
#include <filesystem>

#include "data/classes/label_columns.h"
#include "data/classes/match_classes.h"
#include "data/feed/epoch_plan.h"
#include "data/feed/loader_options.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/core/parallel.h"
#include "dtn/optim/schedule.h"

namespace dtn {
namespace {

// Maximum number of batches in a loader (loader.h), plus the one that it has handed out.
double batches_held(std::int64_t workers, std::int64_t batch_size) {
  return static_cast<double>(
      workers > 0 ? std::max<std::int64_t>(3, 2 * workers / batch_size + 1) + 1 : 2);
}

double bytes_of(const std::vector<FieldSpec>& fields) {
  double bytes = 0;
  for (const FieldSpec& field : fields) {
    bytes +=
        static_cast<double>(field.row.numel() * static_cast<std::int64_t>(size_of(field.dtype)));
  }
  return bytes;
}

void add_batches(const ExperimentConfig& config, const SampleSource& source,
                 std::int64_t batch_size, Device device, RunMemory& memory) {
  const double held = batches_held(workers_of(config.data, device), batch_size);
  const double host_bytes = static_cast<double>(batch_size) * bytes_of(source.host_fields());
  if (device == kCpu) {
    memory.batches += held * host_bytes;
    return;
  }
  // The feeder's ring has three batches on the host and on the device; a step reads one more.
  memory.batches +=
      3 * host_bytes + static_cast<double>(batch_size) * bytes_of(source.device_fields());
  memory.host_batches += (held + 2) * host_bytes;
}

// Returns the config with synthetic samples, as many as the split of the data set is known to have.
ExperimentConfig with_synthetic_samples(ExperimentConfig config, Split split) {
  struct Sizes {
    std::int64_t train, val;
  };
  constexpr Sizes kImageNet{1'281'167, 50'000}, kCifar{50'000, 10'000}, kMnist{60'000, 10'000};
  constexpr Sizes kListops{96'000, 2'000}, kCoco{117'266, 5'000};
  const std::string& kind = config.data.dataset;
  const bool imagenet = kind == "imagenet" || config.model.num_classes == 1000;
  const Sizes sizes = kind == "listops"           ? kListops
                      : kind == "coco"            ? kCoco
                      : imagenet                  ? kImageNet
                      : kind.starts_with("cifar") ? kCifar
                                                  : kMnist;
  config.data.size = split == Split::kTrain ? sizes.train : sizes.val;
  config.data.dataset = "synthetic";
  config.data.train.reset();
  config.data.val.reset();
  return config;
}

}  // namespace

namespace {

void add_pictures(Task& task, RunData& data) {
  data.picture_period = task.picture_period();
  const double pictures = task.picture_multiply_adds();
  if (pictures == 0) return;
  const double step = 3 * task.cost().computed_multiply_adds;
  if (step > 0) data.picture_share = pictures / step;
}

}  // namespace

RunData open_run_data(Task& task, Device device) {
  RunData data{task.source(Split::kTrain, device), nullptr};
  task.learn_classes(*data.train);
  add_pictures(task, data);
  data.val = task.source(Split::kVal, device);
  const auto references = data.val ? task.references(device) : nullptr;
  if (!references) return data;
  data.references = references->size();
  data.evaluation_share =
      task.evaluation_cost().computed_multiply_adds / (3 * task.cost().computed_multiply_adds);
  return data;
}

namespace {

// Returns true if the run has a validation split, even if its data is missing.
bool evaluates(const Task& task, Device device) {
  try {
    return task.source(Split::kVal, device) != nullptr;
  } catch (const DataError&) {
    return true;
  }
}

}  // namespace

RunData open_or_synthesize(Task& task, ExperimentConfig& config, Device device,
                           const Registries& registries, std::string& note) {
  try {
    return open_run_data(task, device);
  } catch (const DataError& e) {
    if (std::filesystem::exists(config.data.root)) throw;
    const char* noun = config.model.max_length > 0 ? "sequences" : "images";
    note = cat("no data: ", e.what(), "\nthe estimates use synthetic ", noun,
               " and an assumed size of the data set; loading real ", noun,
               " takes a different time\n");
  }
  const auto synthetic = [&](Split split) {
    const ExperimentConfig made = with_synthetic_samples(config, split);
    return make_task({made, kMeta, registries})->source(split, device);
  };
  RunData data{synthetic(Split::kTrain), nullptr};
  add_pictures(task, data);
  if (evaluates(task, device)) data.val = synthetic(Split::kVal);
  config = with_synthetic_samples(config, Split::kTrain);
  return data;
}

void take_num_classes(ExperimentConfig& config, const Registries& registries) {
  // Tensors of a diffusion model may have the label that stands for none.
  const bool reads_classes = config.task == "diffusion" && config.data.dataset != "tensors";
  const bool any_number = config.task == "multilabel";
  if (config.task != "classify" && !any_number && !reads_classes) return;
  std::int64_t classes = 0;
  try {
    classes = (any_number ? count_multilabel_classes : count_classes)(
        config.data, config.model, config.seed, registries.datasets);
  } catch (const DataError&) {
    return;  // opening the data set later reports the error
  }
  if (classes == 0 || classes == config.model.num_classes) return;
  config.model.num_classes = static_cast<int>(classes);
  log_info(cat("model.num_classes: ", classes, ", from the training data (not set in the config)"));
}

namespace {

// The number of times in a run, with the last step. 0 for a period of 0.
std::int64_t times_due(const Period& every, const RunSize& size) {
  const std::int64_t period = every.count * (every.epochs ? size.steps_per_epoch : 1);
  return period > 0 ? (size.steps + period - 1) / period : 0;
}

}  // namespace

RunSize size_of_run(const ExperimentConfig& config, const RunData& data,
                    const ScheduleRegistry& schedules) {
  RunSize size;
  size.evaluated_samples = data.val ? data.val->size() + data.references : 0;
  size.evaluation_share = data.evaluation_share;
  size.steps_per_epoch = epoch_length(*data.train, config.train.batch_size, config.data.repeats,
                                      config.augment.repeats) /
                         config.train.batch_size;
  if (size.steps_per_epoch == 0) {
    throw DataError(cat(data.train->description(), ": fewer than one batch of ",
                        config.train.batch_size, "; lower train.batch_size"));
  }
  LearningRate rate(config.optim, config.schedule, config.train.batch_size, size.steps_per_epoch,
                    schedules);
  size.steps = rate.total_steps();
  size.peak_rate = rate.peak();
  size.picture_share = data.picture_share;
  if (data.picture_period) size.pictures = times_due(*data.picture_period, size);
  return size;
}

std::int64_t evaluations_of(const TrainConfig& train, const RunSize& size) {
  if (size.evaluated_samples == 0) return 0;
  return std::max<std::int64_t>(times_due(train.eval_every, size), 1) * (train.ema ? 2 : 1);
}

namespace {

// Returns the number of the optimizer's state buffers, each of the size of the weights.
double state_buffers(const OptimConfig& config, const OptimizerRegistry& optimizers) {
  ParameterStore nothing;
  nothing.allocate();
  return static_cast<double>(make_optimizer(config, nothing, optimizers)->state().size());
}

}  // namespace

RunMemory memory_of_run(const ExperimentConfig& config, const RunData& data,
                        std::int64_t parameters, const StepProfile& step, Device device,
                        const OptimizerRegistry& optimizers) {
  const TrainConfig& train = config.train;
  const double copy = 4 * static_cast<double>(parameters);
  RunMemory memory;
  const double with_low = train.precision == Precision::kBFloat16 ? 1.5 : 1;
  memory.weights = with_low * copy;
  // Every model is allocated with a gradient buffer, although a teacher does not use it.
  memory.teacher =
      (1 + with_low) * 4 * static_cast<double>(step.other_parameters) + step.other_store_bytes;
  memory.gradients = copy;
  memory.moments = copy * state_buffers(config.optim, optimizers);
  memory.average = train.ema ? copy : 0;
  memory.activations = step.bytes + step.bytes_per_sample * static_cast<double>(micro_batch(train));
  add_batches(config, *data.train, train.batch_size, device, memory);
  if (data.val) add_batches(config, *data.val, micro_batch(train), device, memory);
  return memory;
}

RunTime time_of_run(const ExperimentConfig& config, const RunSize& size, double step_seconds,
                    double load_seconds, Device device) {
  const double threads = max_threads();
  const double workers = std::min<double>(workers_of(config.data, device), threads);
  const auto with_loading = [&](double computing) {
    if (workers == 0) return computing + load_seconds;
    if (device != kCpu) return std::max(computing, load_seconds);
    // The cores do both, and a sample cannot be used before it is loaded.
    return std::max(computing + load_seconds * workers / threads, load_seconds);
  };
  RunTime time;
  time.per_sample = with_loading(step_seconds);
  time.training = time.per_sample * static_cast<double>(size.steps) * config.train.batch_size;
  time.evaluation =
      with_loading(step_seconds * size.evaluation_share) *
      static_cast<double>(evaluations_of(config.train, size) * size.evaluated_samples);
  time.pictures = step_seconds * size.picture_share * static_cast<double>(size.pictures);
  return time;
}

}  // namespace dtn
