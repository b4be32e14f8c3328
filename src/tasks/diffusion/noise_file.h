// Noise for samples that a user gives in a safetensors file.
#pragma once

#include <filesystem>

#include "tasks/diffusion/sample_images.h"

namespace dtn {

// Reads `x` [N, C, H, W], the noise that sampling begins with, and, for a sampler that adds noise,
// `z` [steps, N, C, H, W], noisiest step first; both float32. `images`: [N, C, H, W]. Throws
// DataError, which names the file, for other shapes or types and for a missing tensor.
GivenNoise read_noise_file(const std::filesystem::path& file, const Shape& images,
                           const Sampler& sampler);

}  // namespace dtn
