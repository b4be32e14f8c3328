// Translates the weight names of Hugging Face's transformers (ViT, DeiT, DINOv2, MAE) to timm's.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

bool has_huggingface_names(const NamedTensors& tensors);

// Accepts the names that save_pretrained() writes and the names of the modules in memory since
// transformers 5. Joins query, key and value. Leaves out a pooler and MAE's decoder. All other
// tensors stay unchanged.
NamedTensors huggingface_in_timm_names(const NamedTensors& tensors,
                                       std::vector<std::string>& notes);

}  // namespace dtn
