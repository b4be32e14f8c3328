// The other models of an ensemble, of dtn-eval with several checkpoints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/common/weights_source.h"
#include "dtn/tasks/registries.h"

namespace dtn::app {

// Makes an ensemble of a classifier of `config`, whose weights are to be loaded by load_weights(),
// and of the checkpoints `others`, whose weights are loaded here. `weights` is the file of the
// first, `options` the rest of the command line. Throws ConfigError if a checkpoint does not fit.
std::unique_ptr<Task> make_ensemble(const TaskSetup& setup, const TensorFile& weights,
                                    const std::vector<std::string>& others,
                                    const WeightsOptions& options);

}  // namespace dtn::app
