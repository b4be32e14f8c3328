// Length, memory and time of a run, estimated before it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/estimate/step_profile.h"

namespace dtn {

// Samples of a run's task, prepared for a device.
struct RunData {
  std::shared_ptr<const SampleSource> train, val;  // val is null if the run makes no evaluation
  std::int64_t references = 0;                     // samples with which each evaluation compares
  // Work on an evaluated sample relative to a step on a training sample.
  double evaluation_share = 1.0 / 3;
  std::optional<Period> picture_period{};  // of Task::picture(); unset: none are drawn
  double picture_share = 0;                // work on a picture, in the same unit
};
// Opens the data sets of a task; the task may be on kMeta. Throws DataError if a data set cannot be
// opened, and ConfigError for an impossible augmentation.
RunData open_run_data(Task& task, Device device = kCpu);

// Opens the data of the run. If data.root does not exist, makes synthetic samples, as many as the
// data set is known to have. In this case `config` becomes synthetic, and `note` gives the reason.
RunData open_or_synthesize(Task& task, ExperimentConfig& config, Device device,
                           const Registries& registries, std::string& note);

// Takes model.num_classes from the training data, if the task is a classification and the data
// exists. Logs the number if it differs from the default.
void take_num_classes(ExperimentConfig& config, const Registries& registries);

struct RunSize {
  std::int64_t evaluated_samples = 0;  // of an evaluation, references included
  double evaluation_share = 1.0 / 3;   // see RunData
  double picture_share = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;
  std::int64_t pictures = 0;  // that the task draws
  double peak_rate = 0;       // largest learning rate
};

// Throws DataError if there are fewer training samples than one batch.
RunSize size_of_run(const ExperimentConfig& config, const RunData& data,
                    const ScheduleRegistry& schedules);

// Number of passes through the validation samples: one at each train.eval_every and one after the
// last step; twice as many with a moving average of the weights. 0 without validation samples.
std::int64_t evaluations_of(const TrainConfig& train, const RunSize& size);

// Memory of a run, in bytes on the device.
struct RunMemory {
  double weights = 0;  // with their bfloat16 copies
  double teacher = 0;  // other models and state that do not learn, copies included
  double gradients = 0, moments = 0;
  double average = 0;       // moving average of the weights
  double activations = 0;   // activations and other memory of a micro-batch at its peak
  double batches = 0;       // batches of samples: in preparation, ready, in use
  double host_batches = 0;  // batches in page-locked host memory; not on the CPU
  // Sum of all except host_batches.
  double total() const {
    return weights + teacher + gradients + moments + average + activations + batches;
  }
};
RunMemory memory_of_run(const ExperimentConfig& config, const RunData& data,
                        std::int64_t parameters, const StepProfile& step, Device device,
                        const OptimizerRegistry& optimizers = optimizer_registry());

// Durations in seconds.
struct RunTime {
  double per_sample = 0;  // one training sample, with loading
  double training = 0, evaluation = 0, pictures = 0;
  double total() const { return training + evaluation + pictures; }
};
// `step_seconds` is the time of a training step per sample; an evaluated sample takes
// RunSize::evaluation_share of it, and a picture RunSize::picture_share times as long.
// `load_seconds` is the time in which data.workers load a sample. On the CPU, loading and computing
// share the cores. On another device, the slower of the two determines the time.
RunTime time_of_run(const ExperimentConfig& config, const RunSize& size, double step_seconds,
                    double load_seconds, Device device);

// Returns the memory of the device; on the CPU, that of the machine or of the process's control
// group.
double machine_bytes(Device device);

// Returns a warning if a run needs more memory than the device has. Returns an empty string if it
// does not, or if no estimate is possible. If the run is close to the limit, a few steps are
// measured. The run has `processes` processes, of which `processes_here` share the memory of this
// machine.
std::string memory_warning(const ExperimentConfig& config, Device device, int processes,
                           int processes_here, const Registries& registries);

// Text for --dry-run: all of these estimates, from measurements of a few steps and a few samples.
std::string describe_run(const ExperimentConfig& config, const std::filesystem::path& output,
                         Device device, const Registries& registries = standard_registries());

}  // namespace dtn
