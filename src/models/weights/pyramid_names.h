// Translates weights of PVTv2 and Swin from timm's layout to the names of the authors' releases.
#pragma once

#include "dtn/io/safetensors.h"

namespace dtn {

// timm counts stages from 0 and puts the convolution of a stage into it: stages.1.downsample is
// patch_embed2. Tensors with the release's names stay unchanged.
NamedTensors in_pvt_v2_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// In timm's later layout the head is head.fc, and a stage begins with the patch merging that ends
// the previous stage in the release: layers.1.downsample is the release's layers.0.downsample.
NamedTensors in_swin_names(const NamedTensors& tensors, std::vector<std::string>& notes);

}  // namespace dtn
