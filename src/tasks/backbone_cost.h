// Cost of a model without its head.
#pragma once

#include "dtn/models/complexity.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Returns the cost of a forward pass over an image of this size.
Complexity backbone_cost(ModelConfig model, const ImageSize& size, const Registries& registries);

}  // namespace dtn
