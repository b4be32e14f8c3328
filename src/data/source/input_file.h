// Inputs of a classifier from a file of tensors, ready for the model, in place of a data set.
#pragma once

#include <string>

#include "dtn/config/model_config.h"
#include "dtn/core/fields.h"

namespace dtn {

// Labels of an input.
enum class InputLabels { kOne, kAnyNumber };

struct InputFileOptions {
  bool any_size = false;  // H and W need not be those of the model
  InputLabels labels = InputLabels::kOne;
};

// Reads inputs from a safetensors file. For a model of images:
//   images   [N, channels, H, W] float32, normalized
// For a model of sequences:
//   tokens   [N, T] int32 or int64, T <= max_length; ids below the vocabulary, then 0 for pads
//   lengths  [N] int32 or int64, optional: number of tokens of each sequence; later ids are
//            ignored. Without it, the tokens before the pads count.
// For both:
//   labels   [N] int64, optional; with kAnyNumber [N, K] uint8, int64 or float32, 0 or 1
//   style    [N] int64, or vector [N, K] float32: the condition, if the model reads one
// Returns the fields that samples of a data set deliver: "image", or "tokens" [N, max_length] int64
// and its lengths; the condition; and if there are labels "label" [N] int64, or "labels" [N, K]
// float32 with kAnyNumber. Throws DataError with the file and the fault.
Fields read_input_file(const std::string& path, const ModelConfig& model,
                       const InputFileOptions& options = {});

}  // namespace dtn
