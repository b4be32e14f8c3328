// Translates LeViT weights from timm's layout to the authors' names.
#pragma once

#include <string>

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames timm's tensors: its stages and blocks become the flat list of blocks. Reshapes the 1 x 1
// convolutions of some timm files to linear layers. Tensors with the authors' names stay unchanged.
NamedTensors levit_in_its_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// Returns true for the index of attention biases, which LevitBias computes.
bool is_levit_index(const std::string& name);

}  // namespace dtn
