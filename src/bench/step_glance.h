// What a training step takes, for estimates.
#pragma once

#include <cstdint>
#include <memory>

#include "dtn/config/train_config.h"
#include "dtn/core/device.h"
#include "dtn/data/sample_source.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Samples of one forward pass.
std::int64_t micro_batch(const TrainConfig& train);

struct StepGlance {
  double seconds_per_sample = 0;
  // Memory of a step beside weights, gradients, moments and average: bytes + n bytes_per_sample,
  // for n samples that go through the model at a time.
  double bytes = 0, bytes_per_sample = 0;
  std::int64_t other_parameters = 0;  // of the task beside what learns: of a teacher
};

// Measured in a few steps of the config's task, on samples of `source`: no more than a glance
// allows, by the multiply-adds of a sample (0: not known). Where samples cost what they are long, time
// is that of one of mean length, and memory that of the longest.
StepGlance glance_at_step(const ExperimentConfig& config,
                          const std::shared_ptr<const SampleSource>& source, double multiply_adds,
                          Device device = kCpu,
                          const Registries& registries = standard_registries());

}  // namespace dtn
