// Random inputs for benchmarks, not zeros: a device may use less power for zeros and run faster.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "dtn/config/train_config.h"
#include "dtn/core/fields.h"
#include "dtn/core/tensor.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Half a million values are made on the host, once for each type and range. Tensors are filled with
// repetitions of these values; each tensor starts at another position.
class RandomValues {
 public:
  // Fills `t` with uniform values in [low, high); integer types round them down.
  void fill(Tensor& t, double low = -1, double high = 1);
  Tensor tensor(const Shape& shape, DType dtype, Device device);

 private:
  const Tensor& source(const Tensor& t, double low, double high);

  std::map<std::tuple<DeviceType, DType, double, double>, Tensor> sources_;
  std::int64_t fills_ = 0;
};

// Returns random images, or sequences of the maximum length, with labels, as Classify expects them.
Fields random_batch(const ModelConfig& model, std::int64_t n, Device device);

// Returns n training samples of the config's task, made from synthetic images, and shows their
// source to the task.
Fields synthetic_batch(const ExperimentConfig& config, std::int64_t n, Device device,
                       const Registries& registries, Task& task);

// Returns n training samples: random_batch() for the task classify, else synthetic_batch().
Fields training_batch(const ExperimentConfig& config, std::int64_t n, Device device,
                      const Registries& registries, Task& task);

}  // namespace dtn
