// Translates released weights of vision transformers to timm's names.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames and reshapes the tensors of DeiT III, DINOv2, OpenAI's CLIP (the image tower), Hugging
// Face's transformers and torchvision as in timm. CLIP's projection becomes the head. Leaves out
// MAE's decoder. All other tensors stay unchanged.
NamedTensors in_timm_names(const NamedTensors& tensors, std::vector<std::string>& notes);

}  // namespace dtn
