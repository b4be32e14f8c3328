// Weights of LeViT in timm's layout, under the authors' names.
#pragma once

#include <string>

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames what timm calls otherwise, its stages and blocks into the flat list of blocks, and brings
// the 1 x 1 convolutions that some of its files have to linear layers. Tensors under the authors'
// names stay as they are.
NamedTensors levit_in_its_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// Whether a tensor is the index of attention biases, which is computed here.
bool is_levit_index(const std::string& name);

}  // namespace dtn
