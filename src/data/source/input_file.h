// Inputs of a classifier that come as tensors in a file, ready for the model, in place of a data set.
#pragma once

#include <string>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"

namespace dtn {

// Reads, from a safetensors file, for a model of images
//   images   [N, channels, H, W] float32, normalized
// or for one of sequences
//   tokens   [N, T] int32 or int64, T <= max_length; ids below the vocabulary, 0 for pads at the end
//   lengths  [N] int32 or int64, optional: how many tokens of each count, whatever lies beyond; without
//            it, those before the pads
// and for either
//   labels   [N] int64, optional
// and gives what samples of a data set deliver: "image", or "tokens" [N, max_length] int64 and its
// lengths; "label" where there are labels. Throws DataError naming the file and the fault.
Fields read_input_file(const std::string& path, const ModelConfig& model);

}  // namespace dtn
