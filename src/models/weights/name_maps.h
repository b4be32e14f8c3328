// Translations of the tensor names of other libraries. Tensors with other names stay unchanged. The
// notes are for the user.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

// Renames and reshapes the tensors of DeiT III, DINOv2, OpenAI's CLIP (the image tower), Hugging
// Face's transformers and torchvision as in timm. CLIP's projection becomes the head. Leaves out
// MAE's decoder.
NamedTensors in_timm_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// Hugging Face's transformers (ViT, DeiT, DINOv2, MAE) to timm. Accepts the names that
// save_pretrained() writes and the names of the modules in memory since transformers 5. Joins
// query, key and value. Leaves out a pooler and MAE's decoder.
bool has_huggingface_names(const NamedTensors& tensors);
NamedTensors huggingface_in_timm_names(const NamedTensors& tensors,
                                       std::vector<std::string>& notes);

// torchvision's vision transformers to timm.
bool has_torchvision_names(const NamedTensors& tensors);
NamedTensors torchvision_in_timm_names(NamedTensors tensors, std::vector<std::string>& notes);

// LeViT, from timm to the authors: timm's stages and blocks become the flat list of blocks.
// Reshapes the 1 x 1 convolutions of some timm files to linear layers.
NamedTensors levit_in_its_names(const NamedTensors& tensors, std::vector<std::string>& notes);
// Returns true for the index of attention biases, which LevitBias computes.
bool is_levit_index(const std::string& name);

// PVTv2, from timm to the release. timm counts stages from 0 and puts the convolution of a stage
// into it: stages.1.downsample is patch_embed2.
NamedTensors in_pvt_v2_names(const NamedTensors& tensors, std::vector<std::string>& notes);

// Swin, from timm to the release. In timm's later layout the head is head.fc, and a stage begins
// with the patch merging that ends the previous stage in the release: layers.1.downsample is the
// release's layers.0.downsample.
NamedTensors in_swin_names(const NamedTensors& tensors, std::vector<std::string>& notes);

}  // namespace dtn
