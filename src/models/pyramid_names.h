// Weights of PVTv2 and Swin as timm lays them out, under the names of these models' own releases.
#pragma once

#include "dtn/io/safetensors.h"

namespace dtn {

// timm counts stages from 0 and has the convolution of a stage in it, stages.1.downsample for
// patch_embed2. What has the release's names stays as it is.
NamedTensors in_pvt_v2_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// In timm's later layout a stage begins with the merging that ends the stage before in the release,
// layers.1.downsample for layers.0.downsample, of which there is none then; its head is head.fc.
NamedTensors in_swin_names(const NamedTensors& tensors, std::vector<std::string>& notes);

}  // namespace dtn
