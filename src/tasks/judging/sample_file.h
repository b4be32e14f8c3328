// Samples of a diffusion model in a file, as dtn-sample --save-samples writes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtn/core/tensor.h"
#include "dtn/data/dataset.h"
#include "dtn/io/safetensors.h"

namespace dtn {

// Metadata of samples of a model without classes. Their labels are 0, and nothing was asked for.
inline constexpr const char* kUnconditionalKey = "unconditional";

struct SampleFile {
  std::string path;
  Tensor samples;  // [N, C, H, W] float32: pixels in [-1, 1], or latents; finite
  Tensor labels;   // [N] int64: the class that each sample was asked to be
  StringMap metadata;

  bool has_classes() const { return !metadata.contains(kUnconditionalKey); }
};

// Reads `samples` and `labels`. Throws DataError if one is missing, of another type or shape, or
// not finite.
SampleFile read_sample_file(const std::filesystem::path& path);

// Replaces the labels by those of a model of these classes: matched by name as in match_classes.h,
// if both have names, else unchanged, with a message if one of them has. Throws DataError for a
// class that the model does not have.
void match_sample_labels(const ClassList& model, SampleFile& file);

}  // namespace dtn
