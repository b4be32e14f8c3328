// Weights of vision transformers as their authors released them, under timm's names.
#pragma once

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames what DeiT III, DINOv2 and OpenAI's CLIP (the image tower) call otherwise and brings it to
// timm's shapes; CLIP's projection becomes the head. All other tensors stay as they are.
NamedTensors in_timm_names(const NamedTensors& tensors);

}  // namespace dtn
