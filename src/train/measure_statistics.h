// Running statistics of batch normalizers, measured on weights that no training has produced: those
// of an average of models are not the average of theirs (Izmailov et al., "Averaging weights leads
// to wider optima and better generalization", 2018, section 3.2).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dtn/config/train_config.h"
#include "dtn/core/tensor.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Returns why the running statistics of a model cannot be measured; empty: they can. They must move
// by a share of each batch, the option `momentum` of a normalizer.
std::string statistics_problem(const ExperimentConfig& config, const Registries& registries);

// Returns the weights with other running statistics: the mean of those of `batches` batches of
// training samples, in training mode and float32. `weights` are the values of the store of the
// config's task, float32 on the CPU. `on_batch` is called with the number of batches done.
// Throws ConfigError if there is a statistics_problem(), and DataError if the training samples fill
// no batch.
Tensor measure_statistics(const Tensor& weights, const ExperimentConfig& config, Device device,
                          const Registries& registries, std::int64_t batches,
                          const std::function<void(std::int64_t done)>& on_batch = {});

}  // namespace dtn
