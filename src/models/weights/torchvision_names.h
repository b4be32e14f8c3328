// Translates weights of torchvision's vision transformers to timm's names.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

bool has_torchvision_names(const NamedTensors& tensors);

// Tensors with other names than torchvision's stay unchanged.
NamedTensors torchvision_in_timm_names(NamedTensors tensors, std::vector<std::string>& notes);

}  // namespace dtn
