// Vision transformers of Hugging Face's transformers (ViT, DeiT, DINOv2, MAE) under timm's names.
#pragma once

#include <string>
#include <vector>

#include "dtn/io/safetensors.h"

namespace dtn {

bool has_huggingface_names(const NamedTensors& tensors);

// Takes the names that save_pretrained() writes and those of the modules in memory since
// transformers 5. Query, key and value are joined. A pooler and MAE's decoder are left out. All
// other tensors stay as they are.
NamedTensors huggingface_in_timm_names(const NamedTensors& tensors,
                                       std::vector<std::string>& notes);

}  // namespace dtn
