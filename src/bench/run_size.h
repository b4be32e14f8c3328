// How long and how large a run is, before it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "bench/step_glance.h"

namespace dtn {

// The samples of a run's task, made for a device.
struct RunData {
  std::shared_ptr<const SampleSource> train, val;
};
// Opens the data sets of a task, which may be one on kMeta. Throws DataError when they cannot be, and
// ConfigError for an augmentation that cannot be.
RunData open_run_data(Task& task, Device device = kCpu);

// The data of the run, or, where data.root does not exist, made-up images as many as the data set is known
// to have: `config` then says synthetic, and `note` says why.
RunData open_or_make_up(Task& task, ExperimentConfig& config, Device device,
                        const Registries& registries, std::string& note);

struct RunSize {
  std::int64_t val_samples = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t steps = 0;
  double peak_rate = 0;  // largest learning rate
};

// Throws DataError for training samples that are less than one batch.
RunSize size_of_run(const ExperimentConfig& config, const RunData& data);

// Passes through the validation samples: at each train.eval_every, after the last step, and twice
// where there is a moving average.
std::int64_t evaluations_of(const TrainConfig& train, const RunSize& size);

// Bytes on the device.
struct RunMemory {
  double weights = 0;  // with their bfloat16 copies
  double teacher = 0;  // the same of a model beside the one that learns
  double gradients = 0, moments = 0;
  double average = 0;       // of the weights
  double activations = 0;   // and whatever else a micro-batch needs at its widest
  double batches = 0;       // of samples, being prepared, ready and in use
  double host_batches = 0;  // where the device is not the CPU: those in its page-locked memory
  // Without the last.
  double total() const {
    return weights + teacher + gradients + moments + average + activations + batches;
  }
};
RunMemory memory_of_run(const ExperimentConfig& config, const RunData& data,
                        std::int64_t parameters, const StepGlance& step, Device device,
                        const OptimizerRegistry& optimizers = optimizer_registry());

// Seconds.
struct RunTime {
  double per_sample = 0;  // of training, samples loaded and all
  double training = 0, evaluation = 0;
};
// `step_seconds` is what a training step takes per sample, of which a forward pass alone is a third.
// `load_seconds` is what data.workers take to load a sample; on the CPU they and the step share the
// cores, on another device the slower of the two counts.
RunTime time_of_run(const ExperimentConfig& config, const RunSize& size, double step_seconds,
                    double load_seconds, Device device);

// A warning where a run needs more memory than the device has; empty: it does not, or no estimate
// can be made. A run that is
// close to the limit is measured in a few steps. The run has so many `processes`, of which
// `processes_here` share the memory of this machine.
std::string memory_warning(const ExperimentConfig& config, Device device, int processes,
                           int processes_here, const Registries& registries);

// For --dry-run: all of this in words, after a few steps and a few samples to measure.
std::string describe_run(const ExperimentConfig& config, const std::filesystem::path& output,
                         Device device, const Registries& registries = standard_registries());

}  // namespace dtn
