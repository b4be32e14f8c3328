// Cost of a detector.
#pragma once

#include "dtn/models/complexity.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Number of regions and of masks that are counted for Mask R-CNN.
inline constexpr std::int64_t kCountedRegions = 1000, kCountedMasks = 100;

// Returns the cost of an image of data.scale, padded, wider than high.
Complexity detector_cost(const ExperimentConfig& config, const Registries& registries);

}  // namespace dtn
