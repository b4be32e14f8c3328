// Signs that self-distillation collapses, in the entropy of the teacher's outputs.
#pragma once

#include <optional>

#include "dtn/config/self_supervised_config.h"
#include "dtn/tasks/task.h"

namespace dtn {

// Bounds of the entropy of a training that works, as shares of ln K, the entropy of K equal
// outputs.
//
// Below the first, the mean output has over three quarters of its weight on one of the K elements.
// A collapsed teacher keeps a few percent of ln K, because its outputs still follow the image a
// little.
//
// Above the second, with Gaussian logits of deviation s, ln K - s^2 / 2 > 0.99 ln K: s is below 0.5
// for K = 65536, so the elements hardly differ.
//
// An untrained teacher may be above the second bound, because its features of all images are nearly
// equal and the center takes away what they share. It leaves that range during the warm-up.
inline constexpr double kMinEntropyShare = 0.05, kMaxEntropyShare = 0.99;

// Returns the collapse that the mean entropy shows, with advice. `settled`: the start of the
// training is over, so nearly equal outputs are a collapse.
std::optional<TaskWarning> collapse_warning(const DinoConfig& config, double entropy, bool settled);

// Returns the step at which the start of a training is over: the end of the warm-up of the learning
// rate, of the epochs with a frozen last layer, and of the first epoch.
std::int64_t settled_from(const ExperimentConfig& config, const RunLength& run);

// Returns true if the start was over before all steps of the log line at `step`.
bool is_settled(const ExperimentConfig& config, const RunLength& run, std::int64_t step);

}  // namespace dtn
