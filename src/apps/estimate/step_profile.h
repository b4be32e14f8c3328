// Time and memory of a training step, and the speed of the data loader, for estimates.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/data/dataset.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Number of samples in one forward pass.
std::int64_t micro_batch(const TrainConfig& train);

struct StepProfile {
  double seconds_per_sample = 0;  // of a batch's gradients and its share of the update
  // Memory of a step besides weights, gradients, moments and moving average, for n samples in a
  // forward pass: bytes + n bytes_per_sample.
  double bytes = 0, bytes_per_sample = 0;
  std::int64_t other_parameters = 0;  // of the task's other models, such as a teacher
  double other_store_bytes = 0;       // of the task's stores that do not learn
};

// Measures a few steps of the config's task on samples of `source`, bounded by a work budget;
// `multiply_adds` is the work per sample (0: unknown). If the cost of a sample depends on its
// length, the time is for a sample of mean length, and the memory for the longest sample.
StepProfile profile_step(const ExperimentConfig& config,
                         const std::shared_ptr<const SampleSource>& source, double multiply_adds,
                         Device device = kCpu,
                         const Registries& registries = standard_registries());

// Returns the seconds per sample alone, in a fraction of the time. On the CPU, it leaves out the
// update of the weights, which is short for the batches of a training.
double profile_seconds_per_sample(const ExperimentConfig& config,
                                  const std::shared_ptr<const SampleSource>& source,
                                  double multiply_adds, Device device = kCpu,
                                  const Registries& registries = standard_registries());

// Rate at which a loader makes samples in batches of at most `batch_size`, measured for `seconds`
// with the number of workers that config.data has for the device.
struct LoadingRate {
  double samples_per_second = 0;
  std::int64_t samples = 0;
  std::int64_t bad_samples = 0;
};
LoadingRate measure_loading(std::shared_ptr<const SampleSource> source,
                            const ExperimentConfig& config, std::int64_t batch_size, Split split,
                            double seconds, Device device = kCpu);

}  // namespace dtn
