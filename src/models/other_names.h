// Weights of vision transformers as their authors released them, under timm's names.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames what DeiT III, DINOv2, OpenAI's CLIP (the image tower), Hugging Face's transformers and
// torchvision call otherwise and brings it to timm's shapes; CLIP's projection becomes the head.
// MAE's decoder is left out. All other tensors stay as they are.
NamedTensors in_timm_names(const NamedTensors& tensors, std::vector<std::string>& notes);

}  // namespace dtn
