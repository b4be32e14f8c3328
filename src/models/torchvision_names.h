// Vision transformers of torchvision under timm's names.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

bool has_torchvision_names(const NamedTensors& tensors);

// All tensors whose names torchvision does not have stay as they are.
NamedTensors torchvision_in_timm_names(NamedTensors tensors, std::vector<std::string>& notes);

}  // namespace dtn
